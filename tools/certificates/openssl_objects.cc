#include "tools/certificates/openssl_objects.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace verbena::certificates {
namespace {

// The password callback of a key: there is no password. Without a callback
// OpenSSL would ask on the terminal. Tells that it was called.
int RefusePassword(char* /*buffer*/, int /*size*/, int /*writing*/,
                   void* called) {
  *static_cast<bool*>(called) = true;
  return -1;
}

// Returns an owner of a BIO that reads `text`, which must outlive it.
Owned<BIO> Reader(absl::string_view text) {
  return Owned<BIO>(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Returns what was written to `writer`, a memory BIO.
std::string Written(BIO* writer) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(writer, &text);
  return std::string(text, static_cast<size_t>(size));
}

// Whether the last error of this thread says that no PEM block was left.
bool AtEnd() {
  const unsigned long error = ERR_peek_last_error();
  return ERR_GET_LIB(error) == ERR_LIB_PEM &&
         ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
}

// As OpenSslError(), but for a text that is wrong.
absl::Status WrongText(absl::string_view what) {
  return absl::InvalidArgumentError(OpenSslError(what).message());
}

}  // namespace

// The first error is the cause of the others.
absl::Status OpenSslError(absl::string_view what) {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  const char* const reason = ERR_reason_error_string(error);
  return absl::InternalError(absl::StrCat(
      what, ": ", reason == nullptr ? "OpenSSL gives no reason" : reason));
}

absl::StatusOr<std::vector<Owned<X509>>> ReadCertificates(
    absl::string_view pem) {
  ERR_clear_error();
  std::vector<Owned<X509>> certificates;
  const Owned<BIO> reader = Reader(pem);
  if (reader == nullptr) return OpenSslError("cannot read certificates");
  while (X509* const next =
             PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr)) {
    certificates.emplace_back(next);
  }
  if (!AtEnd()) return WrongText("a certificate cannot be read");
  ERR_clear_error();
  if (certificates.empty()) {
    return absl::InvalidArgumentError(
        "there is no certificate in PEM (BEGIN CERTIFICATE)");
  }
  return certificates;
}

absl::StatusOr<Owned<EVP_PKEY>> ReadPrivateKey(absl::string_view pem) {
  ERR_clear_error();
  // OpenSSL calls a text without any key "unsupported".
  if (!absl::StrContains(pem, "PRIVATE KEY-----")) {
    return absl::InvalidArgumentError(
        "there is no private key in PEM (BEGIN PRIVATE KEY)");
  }
  const Owned<BIO> reader = Reader(pem);
  if (reader == nullptr) return OpenSslError("cannot read a private key");
  bool encrypted = false;
  Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(reader.get(), nullptr,
                                              RefusePassword, &encrypted));
  if (key != nullptr) {
    ERR_clear_error();
    return key;
  }
  const absl::Status error = WrongText("the private key cannot be read");
  return encrypted ? absl::InvalidArgumentError("the private key is encrypted")
                   : error;
}

absl::StatusOr<std::string> ToPem(X509* certificate) {
  const Owned<BIO> writer(BIO_new(BIO_s_mem()));
  if (writer == nullptr || PEM_write_bio_X509(writer.get(), certificate) != 1) {
    return OpenSslError("cannot write a certificate");
  }
  return Written(writer.get());
}

absl::StatusOr<std::string> ToPem(EVP_PKEY* key) {
  // The memory is cleared when it is freed.
  const Owned<BIO> writer(BIO_new(BIO_s_secmem()));
  if (writer == nullptr ||
      PEM_write_bio_PrivateKey(writer.get(), key, nullptr, nullptr, 0, nullptr,
                               nullptr) != 1) {
    return OpenSslError("cannot write a private key");
  }
  return Written(writer.get());
}

}  // namespace verbena::certificates
