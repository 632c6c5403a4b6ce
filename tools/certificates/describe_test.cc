#include "tools/certificates/describe.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/certificates/certificates.h"

namespace verbena::certificates {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Owned<X509> Made(const IssueOptions& options) {
  const absl::StatusOr<Issued> authority = MakeCertificateAuthority();
  EXPECT_TRUE(authority.ok()) << authority.status();
  const absl::StatusOr<Issued> issued = Issue(*authority, options);
  EXPECT_TRUE(issued.ok()) << issued.status();
  absl::StatusOr<std::vector<Owned<X509>>> read =
      ReadCertificates(issued->certificate);
  EXPECT_TRUE(read.ok()) << read.status();
  return std::move(read->front());
}

TEST(DescribeTest, NamesAreThoseOfTlsInTheirOrder) {
  EXPECT_THAT(NamesOf(Made({.names = {"shop.example", "10.0.0.7", "fd00::7",
                                      "spiffe://example.org/a,b"}})
                          .get()),
              ElementsAre("shop.example", "10.0.0.7", "fd00::7",
                          "spiffe://example.org/a,b"));
  EXPECT_THAT(NamesOf(Made({.common_name = "x"}).get()), IsEmpty());
}

TEST(DescribeTest, ASubjectCannotCommandATerminal) {
  EXPECT_EQ(SubjectOf(Made({.common_name = "shop.example"}).get()),
            "CN=shop.example");
  EXPECT_EQ(SubjectOf(Made({.common_name = "a\x1b[2J\n\xc2\x9b"
                                           "b"})
                          .get()),
            "CN=a\\1B[2J\\0A\\C2\\9Bb");
  EXPECT_EQ(SubjectOf(Made({.names = {"spiffe://a/b", "c"}}).get()),
            "spiffe://a/b");
  EXPECT_EQ(SubjectOf(Made({}).get()), "a certificate without a name");
  EXPECT_EQ(IssuerOf(Made({}).get()), "CN=Verbena trial CA");
}

TEST(DescribeTest, NamesCannotCommandATerminal) {
  const Owned<X509> certificate = Made({.common_name = "x"});
  const Owned<GENERAL_NAMES> names(GENERAL_NAMES_new());
  const auto add = [&](int type, const std::string& bytes) {
    GENERAL_NAME* const name = GENERAL_NAME_new();
    ASN1_STRING* const value = ASN1_STRING_type_new(
        type == GEN_IPADD ? V_ASN1_OCTET_STRING : V_ASN1_IA5STRING);
    ASN1_STRING_set(value, bytes.data(), static_cast<int>(bytes.size()));
    GENERAL_NAME_set0_value(name, type, value);
    sk_GENERAL_NAME_push(names.get(), name);
  };
  add(GEN_DNS, "a\x1b[2J");
  add(GEN_IPADD, "short");  // No address has five bytes.
  add(GEN_EMAIL, "a@b");
  ASSERT_EQ(X509_add1_ext_i2d(certificate.get(), NID_subject_alt_name,
                              names.get(), 0, X509V3_ADD_DEFAULT),
            1);
  EXPECT_THAT(NamesOf(certificate.get()), ElementsAre("a\\x1b[2J"));
}

TEST(DescribeTest, TimesAreThoseOfTheCertificate) {
  const absl::Time beginning = absl::FromUnixSeconds(1'700'000'000);
  // The second time has another form, as all have from 2050 on.
  const absl::Time end = absl::FromUnixSeconds(3'000'000'000);
  const Owned<X509> certificate =
      Made({.not_before = beginning, .not_after = end});
  EXPECT_EQ(BeginningOf(certificate.get()), beginning);
  EXPECT_EQ(EndOf(certificate.get()), end);
  const Owned<X509> empty(X509_new());
  EXPECT_EQ(EndOf(empty.get()), absl::InfinitePast());
}

TEST(DescribeTest, KeysHaveATypeAndASize) {
  EXPECT_EQ(KeyTextOf(Made({}).get()), "EC of 256 bits");
  EXPECT_EQ(KeyTextOf(Made({.key_type = KeyType::kRsa1024}).get()),
            "RSA of 1024 bits");
  const Owned<X509> empty(X509_new());
  EXPECT_EQ(KeyTextOf(empty.get()), "a key of an unknown kind");
}

}  // namespace
}  // namespace verbena::certificates
