#include "tools/certificates/certificates.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/certificates/openssl_objects.h"
#include "tools/certificates/verify.h"

namespace verbena::certificates {
namespace {

using testing::HasSubstr;

constexpr char kWell[] = "ok";

std::vector<Owned<X509>> ReadAll(const std::string& pem) {
  absl::StatusOr<std::vector<Owned<X509>>> read = ReadCertificates(pem);
  EXPECT_TRUE(read.ok()) << read.status();
  return read.ok() ? *std::move(read) : std::vector<Owned<X509>>();
}

Owned<X509> Read(const std::string& pem) {
  return std::move(ReadAll(pem).front());
}

// Returns the reason why a peer that trusts `root` refuses `certificate`, as
// TLS on Debian has it; "ok" if it accepts it.
std::string Verified(const Issued& root, const Issued& certificate,
                     int purpose = X509_PURPOSE_SSL_SERVER,
                     const std::string& name = "",
                     const Issued* intermediate = nullptr) {
  return Verify(ReadAll(root.certificate),
                ReadAll(
                    certificate.certificate +
                    (intermediate == nullptr ? "" : intermediate->certificate)),
                {.purpose = purpose,
                 .name = name,
                 .security_level = 2,
                 .strict = true})
      .reason;
}

class CertificatesTest : public testing::Test {
 protected:
  CertificatesTest() : root_(Made(MakeCertificateAuthority())) {}

  static Issued Made(const absl::StatusOr<Issued>& issued) {
    EXPECT_TRUE(issued.ok()) << issued.status();
    return issued.ok() ? *issued : Issued();
  }
  Issued Make(const IssueOptions& options) {
    return Made(Issue(root_, options));
  }

  const Issued root_;
};

TEST_F(CertificatesTest, AServerIsValidByAnyOfItsNames) {
  const Issued server =
      Make({.common_name = "shop",
            .names = {"shop.example", "*.shop.example", "10.0.0.7", "::1"},
            .usage = Usage::kServer});
  for (const char* name :
       {"shop.example", "a.shop.example", "10.0.0.7", "::1"}) {
    EXPECT_EQ(Verified(root_, server, X509_PURPOSE_SSL_SERVER, name), kWell);
  }
  EXPECT_EQ(Verified(root_, server, X509_PURPOSE_SSL_SERVER, "bank.example"),
            "hostname mismatch");
  EXPECT_EQ(Verified(root_, server, X509_PURPOSE_SSL_SERVER, "10.0.0.8"),
            "IP address mismatch");
}

TEST_F(CertificatesTest, TheUsageDecidesForWhomItIs) {
  const auto verify = [&](Usage usage, int purpose) {
    return Verified(root_, Make({.common_name = "x", .usage = usage}), purpose);
  };
  constexpr int kServer = X509_PURPOSE_SSL_SERVER;
  constexpr int kClient = X509_PURPOSE_SSL_CLIENT;
  constexpr char kWrong[] = "unsuitable certificate purpose";
  EXPECT_EQ(verify(Usage::kServer, kServer), kWell);
  EXPECT_EQ(verify(Usage::kServer, kClient), kWrong);
  EXPECT_EQ(verify(Usage::kClient, kServer), kWrong);
  EXPECT_EQ(verify(Usage::kClient, kClient), kWell);
  for (const int purpose : {kServer, kClient}) {
    EXPECT_EQ(verify(Usage::kServerAndClient, purpose), kWell);
    EXPECT_EQ(verify(Usage::kNone, purpose), kWell);
    EXPECT_EQ(verify(Usage::kCodeSigning, purpose), kWrong);
  }
}

TEST_F(CertificatesTest, TimesAreAsAsked) {
  const absl::Time now = absl::Now();
  EXPECT_EQ(Verified(root_, Make({.common_name = "x",
                                  .not_before = now - absl::Hours(9),
                                  .not_after = now - absl::Hours(1)})),
            "certificate has expired");
  EXPECT_EQ(Verified(root_, Make({.common_name = "x",
                                  .not_before = now + absl::Hours(1),
                                  .not_after = now + absl::Hours(9)})),
            "certificate is not yet valid");
  EXPECT_EQ(Issue(root_, {.common_name = "x",
                          .not_before = now,
                          .not_after = now - absl::Hours(1)})
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
  // Years with four digits have another form in a certificate from 2050 on.
  const Owned<X509> late = Read(
      Make({.common_name = "x", .not_after = absl::FromUnixSeconds(3000000000)})
          .certificate);
  EXPECT_EQ(X509_cmp_time(X509_get0_notAfter(late.get()), nullptr), 1);
}

TEST_F(CertificatesTest, ACertificateOfAnotherAuthorityIsForeign) {
  const Issued other = Made(MakeCertificateAuthority());
  EXPECT_EQ(Verified(other, Make({.common_name = "x"})),
            "unable to get local issuer certificate");
  // Signed with a key that does not belong to the authority.
  const Issued mixed = {root_.certificate, other.key};
  EXPECT_EQ(Verified(root_, Made(Issue(mixed, {.common_name = "x"}))),
            "certificate signature failure");
}

TEST_F(CertificatesTest, AnIntermediateAuthorityIsNeededInTheChain) {
  const Issued between =
      Made(MakeIntermediateAuthority(root_, {.common_name = "between"}));
  const Issued server = Made(Issue(between, {.names = {"shop.example"}}));
  EXPECT_EQ(Verified(root_, server, X509_PURPOSE_SSL_SERVER, "shop.example",
                     &between),
            kWell);
  EXPECT_EQ(Verified(root_, server), "unable to get local issuer certificate");
  // A certificate that is no authority's signs in vain.
  const Issued leaf = Make({.common_name = "leaf"});
  EXPECT_EQ(Verified(root_, Made(Issue(leaf, {.common_name = "x"})),
                     X509_PURPOSE_SSL_SERVER, "", &leaf),
            "invalid CA certificate");
}

TEST_F(CertificatesTest, WeakKeysAndSignaturesCanBeMade) {
  EXPECT_EQ(Verified(root_,
                     Make({.common_name = "x", .key_type = KeyType::kRsa1024})),
            "EE certificate key too weak");
  EXPECT_EQ(
      Verified(root_, Make({.common_name = "x", .digest = Digest::kSha1})),
      "CA signature digest algorithm too weak");
  EXPECT_EQ(Verified(root_,
                     Make({.common_name = "x", .key_type = KeyType::kRsa2048})),
            kWell);
  const Issued strong =
      Made(MakeCertificateAuthority({.key_type = KeyType::kP384}));
  EXPECT_EQ(Verified(strong, Made(Issue(strong, {.common_name = "x"}))), kWell);
}

TEST_F(CertificatesTest, AnIdentityMayBeAUriAlone) {
  const std::string identity = "spiffe://example.org/" + std::string(99, 'a');
  const Issued client =
      Make({.names = {identity, "spiffe://a,DNS:evil.example/"}});
  EXPECT_EQ(Verified(root_, client, X509_PURPOSE_SSL_CLIENT), kWell);
  const Owned<X509> read = Read(client.certificate);
  EXPECT_EQ(X509_NAME_entry_count(X509_get_subject_name(read.get())), 0);
  int critical = 0;
  const Owned<GENERAL_NAMES> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(read.get(), NID_subject_alt_name, &critical, nullptr)));
  EXPECT_EQ(critical, 1);
  ASSERT_EQ(sk_GENERAL_NAME_num(names.get()), 2);
  const GENERAL_NAME* const first = sk_GENERAL_NAME_value(names.get(), 0);
  EXPECT_EQ(first->type, GEN_URI);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(
                            first->d.uniformResourceIdentifier)),
                        ASN1_STRING_length(first->d.uniformResourceIdentifier)),
            identity);
}

TEST_F(CertificatesTest, KeysBelongToTheirCertificatesAndSerialsDiffer) {
  const Issued one = Make({.common_name = "x"});
  const Issued two = Make({.common_name = "x"});
  const absl::StatusOr<Owned<EVP_PKEY>> key = ReadPrivateKey(one.key);
  ASSERT_TRUE(key.ok()) << key.status();
  const Owned<X509> first = Read(one.certificate);
  const Owned<X509> second = Read(two.certificate);
  EXPECT_EQ(X509_check_private_key(first.get(), key->get()), 1);
  EXPECT_EQ(X509_check_private_key(second.get(), key->get()), 0);
  EXPECT_NE(ASN1_INTEGER_cmp(X509_get0_serialNumber(first.get()),
                             X509_get0_serialNumber(second.get())),
            0);
}

TEST_F(CertificatesTest, RefusesWhatNoCertificateCanHave) {
  const auto refusal = [&](const IssueOptions& options) {
    const absl::Status status = Issue(root_, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal({.common_name = std::string(65, 'a')}),
              HasSubstr("has 65 bytes"));
  EXPECT_THAT(refusal({.common_name = "\xff"}), HasSubstr("is not valid"));
  EXPECT_THAT(refusal({.names = {"a b"}}), HasSubstr("\"a b\" is no DNS name"));
  EXPECT_THAT(refusal({.common_name = "x",
                       .not_after = absl::FromUnixSeconds(400000000000)}),
              HasSubstr("cannot name the times"));
  EXPECT_EQ(MakeCertificateAuthority({.common_name = ""}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Issue({"", root_.key}, {}).status().message(),
              HasSubstr("no certificate"));
  EXPECT_THAT(Issue({root_.certificate, ""}, {}).status().message(),
              HasSubstr("no private key"));
}

TEST(CheckNameTest, TellsNamesFromOthers) {
  for (const char* name :
       {"localhost", "a-b.example", "_x.example", "*.example.org", "10.0.0.7",
        "fd00::7", "spiffe://example.org/shop", "https://a", "7seas"}) {
    EXPECT_EQ(CheckName(name), absl::OkStatus());
  }
  for (const std::string& name :
       {std::string(""), std::string("a..b"), std::string("*"),
        std::string("a.*.b"), std::string("-a"), std::string("a-"),
        std::string("10.0.0.256"), std::string("fe80::1%eth0"),
        std::string("://a"), std::string("spiffe://"),
        std::string("spiffe://a b"), std::string("7x://a"),
        std::string("a\0b", 3), std::string(64, 'a'),
        absl::StrCat(std::string(63, 'a'), ".", std::string(63, 'a'), ".",
                     std::string(63, 'a'), ".", std::string(63, 'a'))}) {
    EXPECT_EQ(CheckName(name).code(), absl::StatusCode::kInvalidArgument)
        << name;
  }
}

}  // namespace
}  // namespace verbena::certificates
