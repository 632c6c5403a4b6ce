// Verbena, as its clients and servers use it.

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "rpc/rpc.h"
#include "tests/differential/peer.h"
#include "tests/differential/scripted.verbena.h"
#include "tests/differential/scripted_peer.h"
#include "transport/base/check.h"

namespace verbena::differential {
namespace {

struct VerbenaSide {
  using First = differential::First;
  using Second = differential::Second;
  using Status = absl::Status;
  using Server = verbena::Server;
  using ServerContext = verbena::ServerContext;
  using ClientContext = verbena::ClientContext;

  static constexpr bool kSharesPorts = false;

  static Status NewStatus(absl::StatusCode code) {
    return absl::Status(code, "");
  }
  static absl::StatusCode CodeOf(const Status& status) { return status.code(); }
  static void SetTimeout(ClientContext* context, absl::Duration timeout) {
    context->set_timeout(timeout);
  }
  static std::unique_ptr<Server> NewServer(First::Service* first,
                                           Second::Service* second, int* port) {
    ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", *port), port)
        .RegisterService(first)
        .RegisterService(second);
    absl::StatusOr<std::unique_ptr<Server>> server = builder.BuildAndStart();
    CHECK(server.ok()) << server.status().ToString();
    return *std::move(server);
  }
  static bool IsReady(Channel& channel) {
    return channel.state() == ChannelState::kReady;
  }
  static void Kill(Server* server) { server->Shutdown(absl::InfinitePast()); }
  static std::shared_ptr<Channel> NewChannel(int port,
                                             const std::string& config) {
    ChannelOptions options;
    options.service_config = config;
    options.initial_backoff = absl::Milliseconds(1);
    options.max_backoff = absl::Milliseconds(20);
    return CreateChannel(absl::StrCat("127.0.0.1:", port), options);
  }
};

}  // namespace

std::unique_ptr<Peer> NewVerbenaPeer() {
  return std::make_unique<ScriptedPeer<VerbenaSide>>();
}

}  // namespace verbena::differential
