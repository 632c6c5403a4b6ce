// gRPC C++, as its clients and servers use it.

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/validate_service_config.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/differential/peer.h"
#include "tests/differential/scripted.grpc.pb.h"
#include "tests/differential/scripted_peer.h"
#include "transport/base/check.h"

namespace verbena::differential {
namespace {

struct GrpcSide {
  using First = over_grpc::First;
  using Second = over_grpc::Second;
  using Status = grpc::Status;
  using Server = grpc::Server;
  using ServerContext = grpc::ServerContext;
  using ClientContext = grpc::ClientContext;

  static constexpr bool kSharesPorts = true;

  static Status NewStatus(absl::StatusCode code) {
    return {static_cast<grpc::StatusCode>(code), ""};
  }
  static absl::StatusCode CodeOf(const Status& status) {
    return static_cast<absl::StatusCode>(status.error_code());
  }
  static void SetTimeout(ClientContext* context, absl::Duration timeout) {
    context->set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  }
  static std::unique_ptr<Server> NewServer(First::Service* first,
                                           Second::Service* second, int* port) {
    grpc::ServerBuilder builder;
    builder
        .AddListeningPort(absl::StrCat("0.0.0.0:", *port),
                          grpc::InsecureServerCredentials(), port)
        .RegisterService(first)
        .RegisterService(second);
    std::unique_ptr<Server> server = builder.BuildAndStart();
    CHECK(server != nullptr);
    return server;
  }
  static bool IsReady(grpc::Channel& channel) {
    return channel.GetState(false) == GRPC_CHANNEL_READY;
  }
  static void Kill(Server* server) {
    server->Shutdown(absl::ToChronoTime(absl::Now()));
  }
  // At an address of its own, because gRPC counts failures by the name of the
  // server for as long as the process lives.
  static std::shared_ptr<grpc::Channel> NewChannel(int port,
                                                   const std::string& config) {
    static std::atomic<uint32_t> next{1};
    const uint32_t host = next.fetch_add(1);
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    arguments.SetServiceConfigJSON(config);
    return grpc::CreateCustomChannel(
        absl::StrCat("ipv4:127.", host >> 16 & 127, ".", host >> 8 & 255, ".",
                     host & 255, ":", port),
        grpc::InsecureChannelCredentials(), arguments);
  }
};

}  // namespace

// gRPC logs each config that has more than five attempts, or a mistake.
void SilenceGrpc() {
  gpr_set_log_function([](gpr_log_func_args* /*args*/) {});
}

std::unique_ptr<Peer> NewGrpcPeer() {
  return std::make_unique<ScriptedPeer<GrpcSide>>();
}

std::string GrpcsOpinionOf(const std::string& config) {
  return grpc::experimental::ValidateServiceConfigJSON(config);
}

}  // namespace verbena::differential
