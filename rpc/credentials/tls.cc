#include "rpc/credentials/tls.h"

#include <openssl/ssl.h>

#include <utility>

#include "rpc/credentials/tls_context.h"
#include "rpc/credentials/tls_handshake.h"
#include "transport/base/status_macros.h"

namespace verbena {
namespace {

using internal::TlsContext;
using internal::TlsContexts;

constexpr char kKind[] = "tls";

class TlsChannel final : public ChannelCredentials {
 public:
  explicit TlsChannel(const TlsChannelCredentialsOptions& options)
      : options_(options),
        contexts_(options.certificate_provider, TlsContext::ForClient,
                  SSL_VERIFY_PEER) {}

  absl::Status Check() const { return contexts_.Current().status(); }
  absl::string_view kind() const override { return kKind; }
  bool seals() const override { return true; }
  std::unique_ptr<transport::ClientHandshake> Begin(
      const transport::PeerFacts& server) const override {
    return std::make_unique<internal::TlsClientHandshake>(
        contexts_.Current(),
        options_.server_name.empty() ? server.name : options_.server_name,
        options_.check_server_name, options_.verifier);
  }

 private:
  const TlsChannelCredentialsOptions options_;
  const TlsContexts contexts_;
};

int VerifyMode(ClientCertificates wanted) {
  switch (wanted) {
    case ClientCertificates::kDontRequest:
      return SSL_VERIFY_NONE;
    case ClientCertificates::kRequest:
      return SSL_VERIFY_PEER;
    case ClientCertificates::kRequire:
      break;
  }
  return SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
}

class TlsServer final : public ServerCredentials {
 public:
  explicit TlsServer(const TlsServerCredentialsOptions& options)
      : options_(options),
        contexts_(options.certificate_provider, TlsContext::ForServer,
                  VerifyMode(options.client_certificates)) {}

  absl::Status Check() const { return contexts_.Current().status(); }
  absl::string_view kind() const override { return kKind; }
  bool seals() const override { return true; }
  std::unique_ptr<transport::ServerHandshake> Begin(
      const transport::PeerFacts& /*client*/) const override {
    return std::make_unique<internal::TlsServerHandshake>(contexts_.Current(),
                                                          options_.verifier);
  }

 private:
  const TlsServerCredentialsOptions options_;
  const TlsContexts contexts_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<ChannelCredentials>> TlsCredentials(
    const TlsChannelCredentialsOptions& options) {
  if (!options.check_server_name && options.verifier == nullptr) {
    return absl::InvalidArgumentError(
        "check_server_name is false, and there is no verifier: then anybody "
        "with a certificate of the roots could be the server");
  }
  auto credentials = std::make_shared<TlsChannel>(options);
  RETURN_IF_ERROR(credentials->Check());
  return credentials;
}

absl::StatusOr<std::shared_ptr<ServerCredentials>> TlsServerCredentials(
    const TlsServerCredentialsOptions& options) {
  auto credentials = std::make_shared<TlsServer>(options);
  RETURN_IF_ERROR(credentials->Check());
  return credentials;
}

}  // namespace verbena
