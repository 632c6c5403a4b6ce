// Objects of OpenSSL with owners, and its errors as statuses.

#ifndef VERBENA_TOOLS_CERTIFICATES_OPENSSL_OBJECTS_H_
#define VERBENA_TOOLS_CERTIFICATES_OPENSSL_OBJECTS_H_

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace verbena::certificates {

struct Freer {
  void operator()(ASN1_INTEGER* object) const { ASN1_INTEGER_free(object); }
  void operator()(BIGNUM* object) const { BN_free(object); }
  void operator()(BIO* object) const { BIO_free(object); }
  void operator()(EVP_PKEY* object) const { EVP_PKEY_free(object); }
  void operator()(GENERAL_NAME* object) const { GENERAL_NAME_free(object); }
  void operator()(GENERAL_NAMES* object) const { GENERAL_NAMES_free(object); }
  void operator()(X509* object) const { X509_free(object); }
  // The certificates belong to others.
  void operator()(STACK_OF(X509) * object) const { sk_X509_free(object); }
  void operator()(X509_EXTENSION* object) const { X509_EXTENSION_free(object); }
  void operator()(X509_STORE* object) const { X509_STORE_free(object); }
  void operator()(X509_STORE_CTX* object) const { X509_STORE_CTX_free(object); }
};

// An object that its owner frees.
template <typename Object>
using Owned = std::unique_ptr<Object, Freer>;

// Returns INTERNAL with "`what`: ", and the reason of the first error in the
// thread's queue of OpenSSL. Empties the queue.
absl::Status OpenSslError(absl::string_view what);

// Returns all certificates of `pem`, in their order; other things in it are
// skipped. INVALID_ARGUMENT if there is none, or if one cannot be read.
absl::StatusOr<std::vector<Owned<X509>>> ReadCertificates(
    absl::string_view pem);

// Returns the first private key of `pem`. INVALID_ARGUMENT if there is none, if
// it cannot be read, or if it is encrypted: nobody is asked for a password.
absl::StatusOr<Owned<EVP_PKEY>> ReadPrivateKey(absl::string_view pem);

absl::StatusOr<std::string> ToPem(X509* certificate);
absl::StatusOr<std::string> ToPem(EVP_PKEY* key);

}  // namespace verbena::certificates

#endif  // VERBENA_TOOLS_CERTIFICATES_OPENSSL_OBJECTS_H_
