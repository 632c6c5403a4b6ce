#include "tools/certificates/openssl_objects.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/certificates/certificates.h"

namespace verbena::certificates {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

Issued Authority() {
  const absl::StatusOr<Issued> made = MakeCertificateAuthority();
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *made : Issued();
}

TEST(OpenSslObjectsTest, ReadsAllCertificatesOfAText) {
  const Issued one = Authority();
  const Issued two = Authority();
  const absl::StatusOr<std::vector<Owned<X509>>> read = ReadCertificates(
      "words\n" + one.key + one.certificate + two.certificate + "more");
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_THAT(*read, SizeIs(2));
  EXPECT_EQ(*ToPem(read->front().get()), one.certificate);
  EXPECT_EQ(*ToPem(read->back().get()), two.certificate);
  EXPECT_EQ(ERR_peek_error(), 0);
}

TEST(OpenSslObjectsTest, SaysWhyThereIsNoCertificate) {
  const Issued issued = Authority();
  for (const std::string& text : {std::string(), std::string("words"),
                                  issued.key, std::string(70000, 'x')}) {
    const absl::Status status = ReadCertificates(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("no certificate in PEM"));
  }
  std::string broken = issued.certificate;
  broken.replace(60, 3, "###");
  for (const std::string& text :
       {broken, issued.certificate + broken,
        issued.certificate.substr(0, issued.certificate.size() / 2)}) {
    const absl::Status status = ReadCertificates(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("cannot be read: "));
  }
  EXPECT_EQ(ERR_peek_error(), 0);
}

TEST(OpenSslObjectsTest, ReadsThePrivateKeyOfAText) {
  const Issued issued = Authority();
  const absl::StatusOr<Owned<EVP_PKEY>> read =
      ReadPrivateKey(issued.certificate + issued.key);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*ToPem(read->get()), issued.key);
  EXPECT_EQ(ERR_peek_error(), 0);
}

TEST(OpenSslObjectsTest, SaysWhyThereIsNoPrivateKey) {
  const Issued issued = Authority();
  EXPECT_THAT(ReadPrivateKey(issued.certificate).status().message(),
              HasSubstr("no private key in PEM"));
  std::string broken = issued.key;
  broken.replace(60, 3, "###");
  EXPECT_THAT(ReadPrivateKey(broken).status().message(),
              HasSubstr("the private key cannot be read: "));
  EXPECT_EQ(ERR_peek_error(), 0);
}

// A program must not wait at a terminal for a password that nobody types.
TEST(OpenSslObjectsTest, AsksNobodyForAPassword) {
  const absl::StatusOr<Owned<EVP_PKEY>> key = ReadPrivateKey(Authority().key);
  ASSERT_TRUE(key.ok()) << key.status();
  const Owned<BIO> writer(BIO_new(BIO_s_mem()));
  const std::string password = "november";
  ASSERT_EQ(PEM_write_bio_PrivateKey(
                writer.get(), key->get(), EVP_aes_256_cbc(),
                reinterpret_cast<const unsigned char*>(password.data()),
                static_cast<int>(password.size()), nullptr, nullptr),
            1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(writer.get(), &text);
  const absl::Status status =
      ReadPrivateKey(std::string(text, static_cast<size_t>(size))).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "the private key is encrypted");
  EXPECT_EQ(ERR_peek_error(), 0);
}

TEST(OpenSslObjectsTest, AnErrorWithoutAReasonSaysSo) {
  ERR_clear_error();
  EXPECT_EQ(OpenSslError("x").message(), "x: OpenSSL gives no reason");
}

}  // namespace
}  // namespace verbena::certificates
