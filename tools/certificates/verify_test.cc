#include "tools/certificates/verify.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tools/certificates/certificates.h"

namespace verbena::certificates {
namespace {

class VerifyTest : public testing::Test {
 protected:
  VerifyTest()
      : root_(Made(MakeCertificateAuthority())),
        between_(Made(
            MakeIntermediateAuthority(root_, {.common_name = "between"}))) {}

  static Issued Made(const absl::StatusOr<Issued>& issued) {
    EXPECT_TRUE(issued.ok()) << issued.status();
    return issued.ok() ? *issued : Issued();
  }
  static std::vector<Owned<X509>> Read(const std::string& pem) {
    absl::StatusOr<std::vector<Owned<X509>>> read = ReadCertificates(pem);
    EXPECT_TRUE(read.ok()) << read.status();
    return *std::move(read);
  }
  Verdict Verified(const std::string& chain,
                   const VerifyOptions& options = {}) {
    return Verify(Read(root_.certificate), Read(chain), options);
  }

  const Issued root_;
  const Issued between_;
};

TEST_F(VerifyTest, NamesTheAuthorityThatWasFound) {
  const Verdict verdict =
      Verified(Made(Issue(root_, {.common_name = "x"})).certificate);
  EXPECT_EQ(verdict.code, X509_V_OK);
  EXPECT_EQ(verdict.reason, "ok");
  EXPECT_EQ(verdict.subject, "CN=Verbena trial CA");
}

TEST_F(VerifyTest, UsesTheOtherCertificatesOfTheChain) {
  const Issued issued = Made(Issue(between_, {.common_name = "x"}));
  EXPECT_EQ(Verified(issued.certificate + between_.certificate).code,
            X509_V_OK);
  const Verdict alone = Verified(issued.certificate);
  EXPECT_EQ(alone.code, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY);
  EXPECT_EQ(alone.subject, "CN=x");
}

TEST_F(VerifyTest, ChecksTimesUnlessItIsToldNotTo) {
  const absl::Time now = absl::Now();
  const std::string expired =
      Made(Issue(root_, {.common_name = "x",
                         .not_before = now - absl::Hours(20),
                         .not_after = now - absl::Hours(10)}))
          .certificate;
  EXPECT_EQ(Verified(expired).code, X509_V_ERR_CERT_HAS_EXPIRED);
  EXPECT_EQ(Verified(expired, {.time = absl::InfinitePast()}).code, X509_V_OK);
  // At that time the authority was not yet valid.
  const Verdict before = Verified(expired, {.time = now - absl::Hours(15)});
  EXPECT_EQ(before.code, X509_V_ERR_CERT_NOT_YET_VALID);
  EXPECT_EQ(before.subject, "CN=Verbena trial CA");
}

TEST_F(VerifyTest, ChecksPurposeNameAndStrengthIfItIsToldTo) {
  const std::string weak =
      Made(Issue(root_, {.common_name = "shop.example",
                         .names = {"bank.example", "10.0.0.7"},
                         .usage = Usage::kClient,
                         .key_type = KeyType::kRsa1024}))
          .certificate;
  EXPECT_EQ(Verified(weak).code, X509_V_OK);
  EXPECT_EQ(Verified(weak, {.purpose = X509_PURPOSE_SSL_SERVER}).code,
            X509_V_ERR_INVALID_PURPOSE);
  EXPECT_EQ(Verified(weak, {.name = "bank.example"}).code, X509_V_OK);
  EXPECT_EQ(Verified(weak, {.name = "10.0.0.7"}).code, X509_V_OK);
  EXPECT_EQ(Verified(weak, {.name = "10.0.0.8"}).code,
            X509_V_ERR_IP_ADDRESS_MISMATCH);
  // The subject does not count.
  EXPECT_EQ(Verified(weak, {.name = "shop.example"}).code,
            X509_V_ERR_HOSTNAME_MISMATCH);
  EXPECT_EQ(Verified(weak, {.security_level = 2}).code,
            X509_V_ERR_EE_KEY_TOO_SMALL);
}

TEST_F(VerifyTest, StrictnessFindsWhatRfc5280Forbids) {
  // Without a subject and without names it is nobody's.
  const std::string nameless = Made(Issue(root_, {})).certificate;
  EXPECT_EQ(Verified(nameless).code, X509_V_OK);
  EXPECT_EQ(Verified(nameless, {.strict = true}).code,
            X509_V_ERR_SUBJECT_NAME_EMPTY);
}

}  // namespace
}  // namespace verbena::certificates
