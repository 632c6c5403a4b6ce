// Credentials by certificates: TLS 1.3, on RDMA and on TCP alike.
//
//   // At the server, which wants to know its clients as well.
//   auto server_credentials = TlsServerCredentials(
//       {.certificate_provider = *server_certificates,
//        .client_certificates = ClientCertificates::kRequire});
//   builder.AddListeningPort("0.0.0.0:50051", *server_credentials);
//
//   // At the client.
//   auto credentials =
//       TlsCredentials({.certificate_provider = *client_certificates});
//   CreateChannel("server.example:50051", *credentials);
//
// Both sides prove who they are before the first call. Then everything that the
// connection carries is encrypted and authenticated: each frame, and the bytes
// that RDMA READ and WRITE move, with AES-256-GCM, or ChaCha20-Poly1305 where a
// processor has no instructions for AES. The keys are bound to what both sides
// have said of themselves when they connected. If anything arrives altered,
// twice, out of order or not at all, the connection ends with DATA_LOSS before
// a handler sees a byte of it.
//
// Connections after the first resume its session, without certificates.
// Certificates that a provider replaces count for connections made afterwards.
//
// auth_context() has gRPC's properties: "transport_security_type" ("ssl"),
// "x509_subject", "x509_common_name", "x509_subject_alternative_name",
// "x509_pem_cert", "peer_dns", "peer_uri", "peer_email", "peer_ip",
// "peer_spiffe_id", "ssl_session_reused", "security_level"; and "tls_cipher".
// The identity is "x509_subject_alternative_name" if the certificate has any,
// else "x509_common_name".

#ifndef VERBENA_RPC_CREDENTIALS_TLS_H_
#define VERBENA_RPC_CREDENTIALS_TLS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/credentials.h"
#include "rpc/credentials/certificate_provider.h"
#include "rpc/credentials/tls_certificates.h"

namespace verbena {

// The options of a client.
struct TlsChannelCredentialsOptions {
  // Roots and identity. Null, or without roots: those of the system. Without an
  // identity: the client shows no certificate.
  std::shared_ptr<const CertificateProvider> certificate_provider = nullptr;
  // Name that the server's certificate must have, a DNS name or an IP
  // address, and that the server is told (SNI). Empty: the host of the
  // channel's target; for targets that a resolver turns into other addresses,
  // except "dns:", the host of each of these.
  std::string server_name = {};
  // Whether the certificate must have that name. If not, a verifier must be
  // there: anybody with a certificate of the roots could be the server.
  bool check_server_name = true;
  TlsVerifier verifier = nullptr;
};

// Whether a server asks for certificates of its clients.
enum class ClientCertificates {
  kDontRequest,
  kRequest,  // A client need not show any, but if it does they must be valid.
  kRequire,
};

// The options of a server.
struct TlsServerCredentialsOptions {
  // Identities, and roots for the certificates of clients. Required.
  std::shared_ptr<const CertificateProvider> certificate_provider = nullptr;
  ClientCertificates client_certificates = ClientCertificates::kDontRequest;
  TlsVerifier verifier = nullptr;
};

// Return INVALID_ARGUMENT if an option does not fit the others, or if the
// provider's certificates cannot be used.
absl::StatusOr<std::shared_ptr<ChannelCredentials>> TlsCredentials(
    const TlsChannelCredentialsOptions& options);
absl::StatusOr<std::shared_ptr<ServerCredentials>> TlsServerCredentials(
    const TlsServerCredentialsOptions& options);

}  // namespace verbena

#endif  // VERBENA_RPC_CREDENTIALS_TLS_H_
