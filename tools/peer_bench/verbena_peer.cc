// Verbena, as a program that follows its README uses it.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/rpc.h"
#include "tools/peer_bench/echo.verbena.h"
#include "tools/peer_bench/peer.h"
#include "tools/peer_bench/rpc_peer.h"
#include "transport/base/status_macros.h"

namespace verbena::peers {
namespace {

struct VerbenaSide {
  using Rpc = EchoService;
  using Status = absl::Status;
  using Channel = verbena::Channel;
  using ClientContext = verbena::ClientContext;
  using ServerContext = verbena::ServerContext;
  using CallbackContext = CallbackServerContext;
  using ReaderWriter = ServerReaderWriter<EchoMessage, EchoMessage>;
  using Writer = ServerWriter<EchoMessage>;
  using BidiReactor = ServerBidiReactor<EchoMessage, EchoMessage>;
  using WriteReactor = ServerWriteReactor<EchoMessage>;
  using ClientReaderWriter =
      verbena::ClientReaderWriter<EchoMessage, EchoMessage>;
  using ClientReader = verbena::ClientReader<EchoMessage>;

  static std::shared_ptr<Channel> NewChannel(const std::string& address) {
    return CreateChannel(address);
  }
  static absl::Status ToAbsl(absl::Status status) { return status; }
};

class VerbenaPeer final : public RpcPeer<VerbenaSide> {
 public:
  std::vector<std::string> servers() const override {
    return {"default", "inline", "callback"};
  }
  std::vector<std::string> kinds(const std::string& server) const override {
    if (server == "callback") return {"bidi", "server"};
    return {"unary", "bidi", "server"};
  }

  absl::StatusOr<std::string> Serve(const std::string& server,
                                    const std::string& address) override {
    ServerBuilder builder;
    builder.AddListeningPort(address);
    if (server == "callback") {
      builder.RegisterService(&reactor_service_);
    } else {
      builder.RegisterService(&service_);
    }
    // Otherwise handlers run where the server's defaults let them.
    if (server == "inline") builder.SetHandlerMode(HandlerMode::kInline);
    ASSIGN_OR_RETURN(server_, builder.BuildAndStart());
    return server_->listening().front().address;
  }

 private:
  BlockingService<VerbenaSide> service_;
  ReactorService<VerbenaSide> reactor_service_;
  std::unique_ptr<Server> server_;
};

}  // namespace
}  // namespace verbena::peers

int main(int argc, char** argv) {
  verbena::peers::VerbenaPeer peer;
  return verbena::peers::RunPeer(argc, argv, peer);
}
