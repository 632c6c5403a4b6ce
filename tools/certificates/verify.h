// Whether a certificate leads to an authority, as OpenSSL judges it.

#ifndef VERBENA_TOOLS_CERTIFICATES_VERIFY_H_
#define VERBENA_TOOLS_CERTIFICATES_VERIFY_H_

#include <openssl/x509_vfy.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tools/certificates/openssl_objects.h"

namespace verbena::certificates {

struct VerifyOptions {
  // The time at which the certificates must be valid; now if it is absent.
  // InfinitePast() does not check times.
  std::optional<absl::Time> time = std::nullopt;
  // X509_PURPOSE_SSL_SERVER or another purpose; 0 for any.
  int purpose = 0;
  // A DNS name or an IP address; empty for any.
  std::string name = "";
  // The least bits of security, by OpenSSL's levels. TLS on Debian has 2: 112
  // bits. -1 checks no strength.
  int security_level = -1;
  // Also holds the certificates to all rules of RFC 5280, as some peers do.
  bool strict = false;
};

struct Verdict {
  int code = X509_V_OK;
  // OpenSSL's words for the code: "ok", or the first error.
  std::string reason;
  // The subject of the certificate that the error is about, or of the authority
  // that was found.
  std::string subject;
};

// Verifies the first certificate of `chain`; the others may stand between it
// and one of `trusted`. REQUIRES: `chain` is not empty.
Verdict Verify(const std::vector<Owned<X509>>& trusted,
               const std::vector<Owned<X509>>& chain,
               const VerifyOptions& options);

}  // namespace verbena::certificates

#endif  // VERBENA_TOOLS_CERTIFICATES_VERIFY_H_
