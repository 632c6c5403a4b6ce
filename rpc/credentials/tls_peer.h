// The peer of a TLS connection, as its certificate describes it.

#ifndef VERBENA_RPC_CREDENTIALS_TLS_PEER_H_
#define VERBENA_RPC_CREDENTIALS_TLS_PEER_H_

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "transport/base/auth_context.h"

namespace verbena::internal {

// Returns the properties that rpc/credentials/tls.h lists. REQUIRES: the
// handshake of `ssl` is done.
std::shared_ptr<transport::AuthContext> PeerOf(const SSL* ssl);

// Returns the names that a certificate has, for messages:
// "a.example, 10.0.0.7".
std::string NamesOf(X509* certificate);

}  // namespace verbena::internal

#endif  // VERBENA_RPC_CREDENTIALS_TLS_PEER_H_
