// The code in docs/security.md, around which stands what makes it compile. A
// test of the documents compares the two; nothing runs it.

#include "rpc/credentials.h"
#include "rpc/credentials/shared_secret.h"
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

[[maybe_unused]] verbena::ChannelOptions Checksums() {
  verbena::ChannelOptions options;
  options.checksum = true;
  return options;
}

}  // namespace
