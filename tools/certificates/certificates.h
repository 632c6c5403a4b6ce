// Makes certificates for trials and for tests, in memory: X.509 version 3, as
// TLS wants them.
//
//   ASSIGN_OR_RETURN(const Issued authority, MakeCertificateAuthority());
//   ASSIGN_OR_RETURN(const Issued server,
//                    Issue(authority, {.names = {"localhost", "127.0.0.1"},
//                                      .usage = Usage::kServer}));
//   ASSIGN_OR_RETURN(const Issued client,
//                    Issue(authority, {.names = {"spiffe://example.org/shop"},
//                                      .usage = Usage::kClient}));
//
// The options also make certificates that TLS refuses: expired ones, some that
// are not yet valid, with another usage, or with a weak key or signature.
//
// All functions are thread-safe. If OpenSSL fails, they return INTERNAL with
// its reason.

#ifndef VERBENA_TOOLS_CERTIFICATES_CERTIFICATES_H_
#define VERBENA_TOOLS_CERTIFICATES_CERTIFICATES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace verbena::certificates {

// A certificate and its private key, each in PEM.
struct Issued {
  std::string certificate;
  std::string key;  // Not encrypted.
};

// TLS refuses RSA of 1024 bits.
enum class KeyType { kP256, kP384, kRsa2048, kRsa1024 };

// TLS refuses signatures over SHA-1.
enum class Digest { kSha256, kSha1 };

// Whose certificate it is in TLS: the extendedKeyUsage. With kNone there is no
// such extension, so the certificate may be used for anything. With
// kCodeSigning it is of no use for TLS.
enum class Usage { kServer, kClient, kServerAndClient, kNone, kCodeSigning };

// Certificates begin an hour ago, because the clocks of two hosts differ.
inline absl::Time DefaultBeginning() { return absl::Now() - absl::Hours(1); }
inline absl::Time DefaultEnd() { return absl::Now() + absl::Hours(30 * 24); }

struct AuthorityOptions {
  std::string common_name = "Verbena trial CA";
  absl::Time not_before = DefaultBeginning();
  absl::Time not_after = DefaultEnd();
  KeyType key_type = KeyType::kP256;
  Digest digest = Digest::kSha256;
};

struct IssueOptions {
  // At most 64 bytes. If it is empty, the certificate has no subject, and the
  // extension with the names is critical.
  std::string common_name = "";
  // DNS names, IP addresses and URIs: see CheckName().
  std::vector<std::string> names = {};
  Usage usage = Usage::kServerAndClient;
  absl::Time not_before = DefaultBeginning();
  absl::Time not_after = DefaultEnd();
  KeyType key_type = KeyType::kP256;
  Digest digest = Digest::kSha256;
};

// Makes a certificate that signs itself, and may sign others. INVALID_ARGUMENT
// if the common name is too long or empty, or the time ends before it begins.
absl::StatusOr<Issued> MakeCertificateAuthority(
    const AuthorityOptions& options = {});

// Makes a certificate that may sign others, signed by `authority`. A peer that
// trusts only `authority` needs this certificate behind those it signs.
// INVALID_ARGUMENT as above, or if `authority` cannot be read.
absl::StatusOr<Issued> MakeIntermediateAuthority(
    const Issued& authority, const AuthorityOptions& options = {});

// Makes a certificate for a server or a client, signed by `authority`.
// INVALID_ARGUMENT as above, or if a name has no valid form. `authority` may
// have expired, and its key may be that of another certificate.
absl::StatusOr<Issued> Issue(const Issued& authority,
                             const IssueOptions& options);

// Fails with INVALID_ARGUMENT unless `name` may stand in a certificate: an IP
// address in digits, a URI such as spiffe://example.org/shop, or a DNS name,
// whose first label may be "*".
absl::Status CheckName(absl::string_view name);

}  // namespace verbena::certificates

#endif  // VERBENA_TOOLS_CERTIFICATES_CERTIFICATES_H_
