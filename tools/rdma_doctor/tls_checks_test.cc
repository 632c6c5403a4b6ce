#include "tools/rdma_doctor/tls_checks.h"

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/certificates/certificates.h"
#include "tools/rdma_doctor/fake_machine.h"

namespace verbena::doctor {
namespace {

namespace fs = std::filesystem;

using certificates::Issued;
using certificates::Usage;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr absl::Duration kDay = absl::Hours(24);

class TlsChecksTest : public testing::Test {
 protected:
  TlsChecksTest()
      : root_(Made(certificates::MakeCertificateAuthority(
            {.common_name = "Shop CA"}))) {
    machine_.Write("/ca.pem", root_.certificate);
  }

  static Issued Made(const absl::StatusOr<Issued>& issued) {
    EXPECT_TRUE(issued.ok()) << issued.status();
    return issued.ok() ? *issued : Issued();
  }
  void Write(const Issued& issued, const std::string& others = "") {
    machine_.Write("/a.pem", issued.certificate + others);
    machine_.Write("/a.key", issued.key);
    fs::permissions(machine_.folder() + "/a.key",
                    fs::perms::owner_read | fs::perms::owner_write);
  }
  // Writes a certificate of the authority, and its key.
  void WriteIssued(const certificates::IssueOptions& options) {
    Write(Made(certificates::Issue(root_, options)));
  }

  std::string Check(const std::string& server_name = "", bool with_ca = true,
                    bool with_cert = true) {
    report_.Clear();
    Findings findings(&report_);
    CheckTls({.ca = with_ca ? machine_.folder() + "/ca.pem" : "",
              .cert = with_cert ? machine_.folder() + "/a.pem" : "",
              .key = with_cert ? machine_.folder() + "/a.key" : "",
              .server_name = server_name},
             now_, &findings);
    return Levels(report_);
  }
  Finding Of(const std::string& check) {
    for (const Finding& each : report_.findings()) {
      if (each.check() == check) return each;
    }
    ADD_FAILURE() << "no finding of " << check;
    return Finding();
  }

  const absl::Time now_ = absl::Now();
  const Issued root_;
  FakeMachine machine_;
  Report report_;
};

TEST_F(TlsChecksTest, FilesOfAServerAreWell) {
  WriteIssued({.common_name = "shop",
               .names = {"shop.example", "10.0.0.7"},
               .usage = Usage::kServer});
  for (const char* name : {"shop.example", "10.0.0.7"}) {
    EXPECT_EQ(Check(name),
              "tls_ca: ok\ntls_cert: ok\ntls_key: ok\ntls_chain: ok\n"
              "tls_name: ok\ntls_usage: ok\n");
  }
  EXPECT_THAT(Of("tls_chain").seen(), HasSubstr("leads to CN=Shop CA in "));
  EXPECT_THAT(Of("tls_name").seen(), EndsWith("is valid for 10.0.0.7"));
  EXPECT_THAT(Of("tls_usage").seen(), EndsWith("is for servers"));
}

TEST_F(TlsChecksTest, FilesOfAClientAreWell) {
  WriteIssued({.common_name = "till", .usage = Usage::kClient});
  EXPECT_EQ(Check(),
            "tls_ca: ok\ntls_cert: ok\ntls_key: ok\ntls_chain: ok\n"
            "tls_usage: ok\n");
  EXPECT_THAT(Of("tls_usage").seen(), EndsWith("is for clients"));
  // A client's flags name the server that it calls.
  EXPECT_EQ(Check("shop.example"),
            "tls_ca: ok\ntls_cert: ok\ntls_key: ok\ntls_chain: ok\n"
            "tls_name: note\ntls_usage: ok\n");
}

TEST_F(TlsChecksTest, AnAuthorityAloneIsEnough) {
  EXPECT_EQ(Check("", /*with_ca=*/true, /*with_cert=*/false), "tls_ca: ok\n");
  EXPECT_EQ(Check("shop.example", /*with_ca=*/true, /*with_cert=*/false),
            "tls_ca: ok\ntls_name: note\n");
}

TEST_F(TlsChecksTest, WithoutAnAuthorityTheChainIsNotChecked) {
  WriteIssued({.common_name = "till"});
  EXPECT_EQ(Check("", /*with_ca=*/false),
            "tls_cert: ok\ntls_key: ok\ntls_chain: note\ntls_usage: ok\n");
  EXPECT_THAT(Of("tls_usage").seen(), EndsWith("is for servers and clients"));
}

TEST_F(TlsChecksTest, FilesThatCannotBeReadHaveNoFurtherFindings) {
  fs::remove(machine_.folder() + "/ca.pem");
  EXPECT_EQ(Check("shop.example"),
            "tls_ca: error\ntls_cert: error\ntls_key: error\n");
  WriteIssued({.common_name = "till"});
  EXPECT_EQ(Check(),
            "tls_ca: error\ntls_cert: ok\ntls_key: ok\ntls_usage: ok\n");
}

TEST_F(TlsChecksTest, AForeignCertificateIsAnError) {
  const Issued other =
      Made(certificates::MakeCertificateAuthority({.common_name = "Other CA"}));
  Write(Made(certificates::Issue(other, {.common_name = "till"})));
  EXPECT_EQ(Check(),
            "tls_ca: ok\ntls_cert: ok\ntls_key: ok\ntls_chain: error\n"
            "tls_usage: ok\n");
  EXPECT_THAT(Of("tls_chain").seen(),
              HasSubstr("CN=till: unable to get local issuer certificate"));
  EXPECT_THAT(Of("tls_chain").meaning(),
              EndsWith("its issuer is CN=Other CA, the file has CN=Shop CA"));
}

TEST_F(TlsChecksTest, AnAuthorityBetweenMustBeInTheFile) {
  const Issued between = Made(certificates::MakeIntermediateAuthority(
      root_, {.common_name = "between"}));
  const Issued till =
      Made(certificates::Issue(between, {.common_name = "till"}));
  Write(till);
  EXPECT_THAT(Check(), HasSubstr("tls_chain: error\n"));
  Write(till, between.certificate);
  EXPECT_THAT(Check(), HasSubstr("tls_chain: ok\n"));
}

// The times of single certificates have findings of their own.
TEST_F(TlsChecksTest, OfSeveralAuthoritiesThatOfTheChainMustBeValid) {
  const Issued old = Made(
      certificates::MakeCertificateAuthority({.common_name = "Old CA",
                                              .not_before = now_ - 9 * kDay,
                                              .not_after = now_ - kDay}));
  Write(Made(certificates::Issue(old, {.common_name = "till"})));
  machine_.Write("/ca.pem", old.certificate);
  EXPECT_EQ(Check(),
            "tls_ca: error\ntls_cert: ok\ntls_key: ok\ntls_chain: ok\n"
            "tls_usage: ok\n");
  machine_.Write("/ca.pem", old.certificate + root_.certificate);
  EXPECT_EQ(Check(),
            "tls_ca: warning\ntls_cert: ok\ntls_key: ok\ntls_chain: error\n"
            "tls_usage: ok\n");
  EXPECT_THAT(Of("tls_chain").seen(),
              EndsWith("CN=Old CA: certificate has expired"));
  WriteIssued({.common_name = "till"});
  EXPECT_THAT(Check(), HasSubstr("tls_chain: ok\n"));
  // A certificate that has expired itself is not reported twice.
  WriteIssued({.common_name = "till",
               .not_before = now_ - 9 * kDay,
               .not_after = now_ - kDay});
  EXPECT_EQ(Check(),
            "tls_ca: warning\ntls_cert: error\ntls_key: ok\ntls_chain: ok\n"
            "tls_usage: ok\n");
}

TEST_F(TlsChecksTest, AMessageNamesOnlySomeOfManyAuthorities) {
  std::string bundle;
  for (int i = 0; i < 7; ++i) bundle += root_.certificate;
  machine_.Write("/ca.pem", bundle);
  Write(Made(certificates::Issue(Made(certificates::MakeCertificateAuthority()),
                                 {.common_name = "x"})));
  Check();
  EXPECT_THAT(Of("tls_chain").meaning(), EndsWith("CN=Shop CA; 2 more"));
}

TEST_F(TlsChecksTest, AWrongNameIsShownWithTheOthers) {
  WriteIssued({.common_name = "shop.example",
               .names = {"a.example", "10.0.0.7"},
               .usage = Usage::kServer});
  // The subject is no name.
  for (const char* name : {"shop.example", "10.0.0.8", "b.a.example"}) {
    EXPECT_EQ(Check(name),
              "tls_ca: ok\ntls_cert: ok\ntls_key: ok\ntls_chain: ok\n"
              "tls_name: error\ntls_usage: ok\n");
    EXPECT_THAT(Of("tls_name").seen(),
                EndsWith(std::string(" is not valid for ") + name +
                         ", but for a.example, 10.0.0.7"));
  }
  EXPECT_THAT(Of("tls_name").mend(),
              StartsWith("verbena certs FOLDER --server-name=b.a.example "));
  WriteIssued({.common_name = "shop.example"});
  EXPECT_THAT(Check("shop.example"), HasSubstr("tls_name: error\n"));
  EXPECT_THAT(Of("tls_name").seen(), HasSubstr(" has no names "));
}

TEST_F(TlsChecksTest, AWrongUsageIsAnError) {
  WriteIssued({.common_name = "x",
               .names = {"shop.example"},
               .usage = Usage::kCodeSigning});
  EXPECT_THAT(Check(), EndsWith("tls_usage: error\n"));
  EXPECT_THAT(Of("tls_usage").seen(),
              HasSubstr("is for neither servers nor clients"));
  // A server's certificate, by its name, which only clients may use.
  WriteIssued(
      {.common_name = "x", .names = {"shop.example"}, .usage = Usage::kClient});
  EXPECT_THAT(Check("shop.example"),
              EndsWith("tls_name: ok\ntls_usage: error\n"));
  EXPECT_THAT(Of("tls_usage").seen(), EndsWith("lacks serverAuth"));
  WriteIssued({.common_name = "x", .usage = Usage::kNone});
  EXPECT_THAT(Check(), EndsWith("tls_usage: ok\n"));
  // An authority signs certificates, and nothing else.
  Write(root_);
  EXPECT_THAT(Check(), EndsWith("tls_usage: error\n"));
  EXPECT_THAT(Of("tls_usage").seen(), EndsWith("lacks digitalSignature"));
}

}  // namespace
}  // namespace verbena::doctor
