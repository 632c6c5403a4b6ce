// Verbena, as a program that follows its README uses it.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/rpc.h"
#include "tools/peer_bench/echo.verbena.h"
#include "tools/peer_bench/peer.h"
#include "transport/base/status_macros.h"

namespace verbena::peers {
namespace {

class Service final : public EchoService::Service {
  absl::Status Echo(ServerContext* /*context*/, const EchoMessage* request,
                    EchoMessage* reply) override {
    reply->set_payload(request->payload());
    return absl::OkStatus();
  }
};

// One caller: a stub of its own, on a channel that others may share.
struct Caller {
  Caller(const std::shared_ptr<Channel>& channel, const std::string& payload)
      : stub(EchoService::NewStub(channel)) {
    request.set_payload(payload);
  }

  absl::Status Call() {
    ClientContext context;
    RETURN_IF_ERROR(stub->Echo(&context, request, &reply));
    return CheckEcho(request, reply);
  }

  std::unique_ptr<EchoService::Stub> stub;
  EchoMessage request;
  EchoMessage reply;
};

class VerbenaPeer final : public Peer {
 public:
  std::vector<std::string> servers() const override {
    return {"default", "inline"};
  }

  absl::StatusOr<std::string> Serve(const std::string& server,
                                    const std::string& address) override {
    ServerBuilder builder;
    builder.AddListeningPort(address);
    builder.RegisterService(&service_);
    if (server == "inline") builder.SetHandlerMode(HandlerMode::kInline);
    ASSIGN_OR_RETURN(server_, builder.BuildAndStart());
    return server_->listening().front().address;
  }

  absl::StatusOr<std::vector<Echo>> Connect(
      const std::string& address, const CallersOptions& options) override {
    for (int i = 0; i < options.channels; ++i) {
      channels_.push_back(CreateChannel(address));
    }
    std::vector<Echo> echoes;
    for (int i = 0; i < options.callers; ++i) {
      auto caller = std::make_shared<Caller>(channels_[i % options.channels],
                                             options.payload);
      echoes.push_back([caller] { return caller->Call(); });
    }
    return echoes;
  }

 private:
  Service service_;
  std::unique_ptr<Server> server_;
  std::vector<std::shared_ptr<Channel>> channels_;
};

}  // namespace
}  // namespace verbena::peers

int main(int argc, char** argv) {
  verbena::peers::VerbenaPeer peer;
  return verbena::peers::RunPeer(argc, argv, peer);
}
