#include "tools/rdma_doctor/tls_file_checks.h"

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/certificates/certificates.h"
#include "tools/rdma_doctor/fake_machine.h"

namespace verbena::doctor {
namespace {

namespace fs = std::filesystem;

using certificates::Digest;
using certificates::Issued;
using certificates::KeyType;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

constexpr absl::Duration kDay = absl::Hours(24);

class TlsFileChecksTest : public testing::Test {
 protected:
  static Issued Made(const absl::StatusOr<Issued>& issued) {
    EXPECT_TRUE(issued.ok()) << issued.status();
    return issued.ok() ? *issued : Issued();
  }
  static Issued Leaf(const certificates::IssueOptions& options) {
    return Made(certificates::Issue(
        Made(certificates::MakeCertificateAuthority()), options));
  }
  // An authority that is valid in a part of the time around now.
  Issued Authority(absl::Duration beginning, absl::Duration end) {
    return Made(certificates::MakeCertificateAuthority(
        {.not_before = now_ + beginning, .not_after = now_ + end}));
  }

  // Checks a file with that text, and returns how many certificates it has.
  size_t CheckCa(const std::string& text) {
    return Check(text, CheckAuthorities);
  }
  size_t CheckCert(const std::string& text) {
    return Check(text, CheckCertificates);
  }
  size_t Check(const std::string& text,
               Certificates (*check)(const std::string&, absl::Time,
                                     Findings*)) {
    machine_.Write("/file", text);
    report_.Clear();
    Findings findings(&report_);
    return check(path_, now_, &findings).size();
  }
  // Checks a key file of that text and mode beside the certificates `cert`.
  std::string Key(const std::string& text, fs::perms mode,
                  const std::string& cert) {
    Certificates chain;
    if (!cert.empty()) chain = *certificates::ReadCertificates(cert);
    machine_.Write("/file", text);
    fs::permissions(path_, mode);
    report_.Clear();
    Findings findings(&report_);
    CheckKey(path_, "server.pem", chain, &findings);
    return Levels(report_);
  }
  std::string Access(mode_t mode, uid_t owner, uid_t self) {
    report_.Clear();
    Findings findings(&report_);
    const bool found = CheckKeyAccess("a.key", mode, owner, self, &findings);
    EXPECT_EQ(found, report_.findings_size() > 0);
    return Levels(report_);
  }

  const Finding& First() const { return report_.findings(0); }
  std::string Seen() const { return First().seen(); }

  const absl::Time now_ = absl::Now();
  FakeMachine machine_;
  const std::string path_ = machine_.folder() + "/file";
  const fs::perms private_ = fs::perms::owner_read | fs::perms::owner_write;
  Report report_;
};

TEST_F(TlsFileChecksTest, AnAuthorityIsWell) {
  EXPECT_EQ(CheckCa(Authority(-kDay, 20 * kDay + absl::Hours(1)).certificate),
            1);
  EXPECT_EQ(Levels(report_), "tls_ca: ok\n");
  EXPECT_EQ(Seen(), path_ + ": CN=Verbena trial CA, valid for 20 days");
}

TEST_F(TlsFileChecksTest, SeveralAuthoritiesAreValidForTheShortestTime) {
  EXPECT_EQ(CheckCa(Authority(-kDay, 40 * kDay).certificate +
                    Authority(-kDay, 30 * kDay + absl::Hours(1)).certificate),
            2);
  EXPECT_EQ(Levels(report_), "tls_ca: ok\n");
  EXPECT_EQ(Seen(), path_ + ": 2 authorities, all valid for 30 days");
}

TEST_F(TlsFileChecksTest, AFileThatCannotBeReadIsAnError) {
  Findings findings(&report_);
  EXPECT_THAT(CheckAuthorities("", now_, &findings), IsEmpty());
  EXPECT_EQ(Levels(report_), "");
  EXPECT_THAT(CheckAuthorities(path_, now_, &findings), IsEmpty());
  EXPECT_EQ(Levels(report_), "tls_ca: error\n");
  EXPECT_EQ(Seen(), path_ + " can't be opened: No such file or directory");
  EXPECT_THAT(First().mend(), AllOf(StartsWith("verbena certs "),
                                    EndsWith("correct --tls_ca")));
  EXPECT_EQ(CheckCert("words"), 0);
  EXPECT_EQ(Levels(report_), "tls_cert: error\n");
  EXPECT_EQ(Seen(), path_ +
                        ": there is no certificate in PEM (BEGIN "
                        "CERTIFICATE)");
  report_.Clear();
  CheckCertificates(machine_.folder(), now_, &findings);
  EXPECT_EQ(Seen(), machine_.folder() + " is not a regular file");
}

TEST_F(TlsFileChecksTest, TimesThatAreNotNowAreErrors) {
  CheckCa(Authority(3 * kDay + absl::Hours(1), 9 * kDay).certificate);
  EXPECT_EQ(Levels(report_), "tls_ca: error\n");
  EXPECT_THAT(Seen(), AllOf(HasSubstr(" is not valid before 2"),
                            EndsWith(" UTC, in 3 days")));
  EXPECT_THAT(First().meaning(), HasSubstr("the clock of this machine says 2"));
  EXPECT_THAT(First().mend(), StartsWith("timedatectl"));

  CheckCert(Leaf({.common_name = "shop",
                  .not_before = now_ - 9 * kDay,
                  .not_after = now_ - absl::Hours(3)})
                .certificate);
  EXPECT_EQ(Levels(report_), "tls_cert: error\n");
  EXPECT_THAT(Seen(), HasSubstr("CN=shop has expired 3 hours ago, on 2"));
}

TEST_F(TlsFileChecksTest, AnEndThatIsNearIsWarnedOf) {
  CheckCa(Authority(-kDay, 7 * kDay - absl::Hours(1)).certificate);
  EXPECT_EQ(Levels(report_), "tls_ca: warning\n");
  EXPECT_THAT(Seen(), HasSubstr("CN=Verbena trial CA expires in 6 days, on 2"));
  CheckCa(Authority(-kDay, absl::Minutes(90) + absl::Seconds(30)).certificate);
  EXPECT_THAT(Seen(), HasSubstr(" expires in 90 minutes, on 2"));
  CheckCa(Authority(-kDay, 7 * kDay + absl::Hours(1)).certificate);
  EXPECT_EQ(Levels(report_), "tls_ca: ok\n");
}

TEST_F(TlsFileChecksTest, OneOfSeveralAuthoritiesMayBeOld) {
  EXPECT_EQ(CheckCa(Authority(-9 * kDay, -kDay).certificate +
                    Authority(-kDay, 30 * kDay).certificate),
            2);
  EXPECT_EQ(Levels(report_), "tls_ca: warning\n");
  EXPECT_THAT(Seen(), HasSubstr(" has expired 24 hours ago"));
}

TEST_F(TlsFileChecksTest, ACertificateThatSignsNoneIsNoAuthority) {
  CheckCa(Leaf({.common_name = "shop"}).certificate);
  EXPECT_EQ(Levels(report_), "tls_ca: warning\n");
  EXPECT_THAT(Seen(), HasSubstr("CN=shop is not the certificate of an"));
}

TEST_F(TlsFileChecksTest, WeakKeysAndSignaturesAreErrors) {
  CheckCert(
      Leaf({.common_name = "shop", .key_type = KeyType::kRsa1024}).certificate);
  EXPECT_EQ(Levels(report_), "tls_cert: error\n");
  EXPECT_THAT(Seen(), EndsWith(" has a weak key: RSA of 1024 bits"));

  CheckCert(Leaf({.common_name = "shop", .digest = Digest::kSha1}).certificate);
  EXPECT_EQ(Levels(report_), "tls_cert: error\n");
  EXPECT_THAT(Seen(), EndsWith(" has a weak signature: ecdsa-with-SHA1"));

  // The signature of an authority over itself protects nothing.
  CheckCa(
      Made(certificates::MakeCertificateAuthority({.digest = Digest::kSha1}))
          .certificate);
  EXPECT_EQ(Levels(report_), "tls_ca: ok\n");
  CheckCa(Made(certificates::MakeCertificateAuthority(
                   {.key_type = KeyType::kRsa1024}))
              .certificate);
  EXPECT_EQ(Levels(report_), "tls_ca: error\n");
}

TEST_F(TlsFileChecksTest, ACertificateIsShownWithItsNames) {
  EXPECT_EQ(CheckCert(Leaf({.common_name = "shop",
                            .names = {"shop.example", "10.0.0.7"},
                            .key_type = KeyType::kRsa2048})
                          .certificate),
            1);
  EXPECT_EQ(Levels(report_), "tls_cert: ok\n");
  EXPECT_EQ(Seen(), path_ +
                        ": CN=shop, for shop.example, 10.0.0.7; RSA of "
                        "2048 bits, valid for 29 days");
  CheckCert(Leaf({.common_name = "shop"}).certificate);
  EXPECT_THAT(Seen(), HasSubstr("CN=shop, without names; EC of 256 bits"));
}

TEST_F(TlsFileChecksTest, AllCertificatesOfAChainAreChecked) {
  const Issued root = Made(certificates::MakeCertificateAuthority());
  const Issued between = Made(certificates::MakeIntermediateAuthority(
      root, {.common_name = "between",
             .not_before = now_ - 9 * kDay,
             .not_after = now_ - kDay}));
  const Issued leaf =
      Made(certificates::Issue(between, {.common_name = "shop"}));
  EXPECT_EQ(CheckCert(leaf.certificate + between.certificate), 2);
  EXPECT_EQ(Levels(report_), "tls_cert: error\n");
  EXPECT_THAT(Seen(), HasSubstr("CN=between has expired"));
}

TEST_F(TlsFileChecksTest, AKeyBelongsToTheFirstCertificate) {
  const Issued shop = Leaf({.common_name = "shop"});
  const Issued other = Leaf({.common_name = "other"});
  EXPECT_EQ(Key(shop.key, private_, shop.certificate), "tls_key: ok\n");
  EXPECT_EQ(Seen(), path_ + ": the key of the certificate, mode 0600");
  EXPECT_EQ(Key(shop.key, private_, other.certificate), "tls_key: error\n");
  EXPECT_EQ(Seen(), path_ +
                        " is not the key of the certificate in server.pem, "
                        "CN=other");
  EXPECT_THAT(First().mend(), StartsWith("openssl x509 -noout -pubkey"));
  EXPECT_EQ(Key(shop.key, private_, other.certificate + shop.certificate),
            "tls_key: error\n");
  EXPECT_THAT(Seen(), HasSubstr("is not the key of the first certificate"));
  EXPECT_EQ(First().mend(),
            "put the certificate of the key first in "
            "server.pem");
  // Without a certificate there is nothing to compare.
  EXPECT_EQ(Key(shop.key, private_, ""), "");
  EXPECT_EQ(Key("words", private_, ""), "tls_key: error\n");
  EXPECT_THAT(Seen(), HasSubstr(": there is no private key in PEM"));
}

TEST_F(TlsFileChecksTest, AKeyThatOthersReadIsFound) {
  const Issued shop = Leaf({.common_name = "shop"});
  EXPECT_EQ(Key(shop.key, private_ | fs::perms::others_read, shop.certificate),
            "tls_key: error\n");
  EXPECT_EQ(Seen(), path_ + " has mode 0604: others may read the key");
  EXPECT_EQ(First().mend(), "chmod 600 " + path_);
}

TEST_F(TlsFileChecksTest, TheModeAndTheOwnerDecideWhoHasPowerOverAKey) {
  constexpr uid_t kSelf = 1000;
  constexpr uid_t kOther = 1001;
  EXPECT_EQ(Access(0600, kSelf, kSelf), "");
  EXPECT_EQ(Access(0400, 0, kSelf), "");
  EXPECT_EQ(Access(0640, 0, kSelf), "tls_key: warning\n");
  EXPECT_EQ(Seen(), "a.key has mode 0640: its group may read the key");
  for (const mode_t mode : {0604, 0644, 0606}) {
    EXPECT_EQ(Access(mode, kSelf, kSelf), "tls_key: error\n");
    EXPECT_THAT(Seen(), EndsWith("others may read the key"));
  }
  for (const mode_t mode : {0602, 0620}) {
    EXPECT_EQ(Access(mode, kSelf, kSelf), "tls_key: error\n");
    EXPECT_THAT(Seen(), EndsWith("others may change the key"));
  }
  EXPECT_EQ(Access(0600, kOther, kSelf), "tls_key: warning\n");
  EXPECT_EQ(Seen(),
            "a.key belongs to user 1001, and this process to user 1000");
  EXPECT_THAT(First().mend(), StartsWith("chown 1000 a.key "));
  EXPECT_EQ(Access(0644, kOther, 0), "tls_key: error\ntls_key: warning\n");
}

}  // namespace
}  // namespace verbena::doctor
