// Certificates for credentials of TLS.

#ifndef VERBENA_RPC_CREDENTIALS_TLS_CERTIFICATES_H_
#define VERBENA_RPC_CREDENTIALS_TLS_CERTIFICATES_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "transport/base/auth_context.h"

namespace verbena {

// A private key and the certificate that has its public key, followed by those
// that lead from it to a root.
struct IdentityKeyCertPair {
  std::string private_key;
  std::string certificate_chain;
};

// The certificates of one side. Either part may be empty.
struct TlsCertificates {
  // Roots to which the other side's certificate must lead.
  std::string root_certs;
  // The side's own. A server with several takes the first whose certificate
  // has the name that the client asks for, else the first of all. A client uses
  // the first one.
  std::vector<IdentityKeyCertPair> identity;
};

// Provides certificates. Thread-safe.
class CertificateProvider {
 public:
  virtual ~CertificateProvider() = default;
  // Returns the certificates for new connections; never null. Must not block.
  // The same object as before if nothing has changed, because a new one costs
  // the next connection a millisecond.
  virtual std::shared_ptr<const TlsCertificates> Current() const = 0;
};

// Looks at a peer whose certificate was accepted; the connection ends unless it
// returns OK. `peer` has the properties that rpc/credentials/tls.h lists. Any
// thread; must not block.
using TlsVerifier =
    std::function<absl::Status(const transport::AuthContext& peer)>;

}  // namespace verbena

#endif  // VERBENA_RPC_CREDENTIALS_TLS_CERTIFICATES_H_
