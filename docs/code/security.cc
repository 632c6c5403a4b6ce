// The code in docs/security.md, around which stands what makes it compile. A
// test of the documents compares the two; nothing runs it.

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rpc/authorization/authorization_policy_provider.h"
#include "rpc/credentials.h"
#include "rpc/credentials/shared_secret.h"
#include "rpc/credentials/tls.h"
#include "rpc/rpc.h"

namespace {

[[maybe_unused]] void Credentials(const std::string& new_secret,
                                  const std::string& old_secret,
                                  verbena::ServerBuilder& builder,
                                  verbena::ServerContext* context,
                                  verbena::Server* server) {
  auto keys = std::make_shared<verbena::SharedSecretKeys>();
  absl::Status status =
      keys->Replace({{"november", new_secret}, {"october", old_secret}});
  builder.AddListeningPort("0.0.0.0:50051",
                           verbena::SharedSecretServerCredentials(keys));

  auto channel = verbena::CreateChannel(
      "10.0.0.7:50051",
      verbena::SharedSecretCredentials("november", new_secret));

  context->auth_context()->GetPeerIdentity();
  server->failed_authentications();
}

[[maybe_unused]] void Tls(
    verbena::ServerBuilder& builder, verbena::ServerContext* context,
    const absl::StatusOr<
        std::shared_ptr<verbena::FileWatcherCertificateProvider>>&
        client_files) {
  auto server_files = verbena::FileWatcherCertificateProvider::Create(
      {.root_cert_path = "ca.pem",
       .identity_paths = {
           {.private_key = "server.key", .certificate_chain = "server.pem"}}});
  auto port = verbena::TlsServerCredentials(
      {.certificate_provider = *server_files,
       .client_certificates = verbena::ClientCertificates::kRequire});
  builder.AddListeningPort("0.0.0.0:50051", *port);

  auto tls = verbena::TlsCredentials({.certificate_provider = *client_files});
  auto channel = verbena::CreateChannel("server.example:50051", *tls);

  context->auth_context()->GetPeerIdentity();
}

[[maybe_unused]] absl::Status Authorization(verbena::ServerBuilder& builder) {
  auto provider = verbena::FileWatcherAuthorizationPolicyProvider::Create(
      "/etc/shop/policy.json", absl::Seconds(10));
  if (!provider.ok()) return provider.status();
  builder.SetAuthorizationPolicyProvider(*provider);
  return absl::OkStatus();
}

[[maybe_unused]] verbena::ChannelOptions Checksums() {
  verbena::ChannelOptions options;
  options.checksum = true;
  return options;
}

}  // namespace
