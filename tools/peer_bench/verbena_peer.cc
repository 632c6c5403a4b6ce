// Verbena, as a program that follows its README uses it.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/rpc.h"
#include "tools/peer_bench/echo.verbena.h"
#include "tools/peer_bench/echo_reactors.h"
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
  absl::Status Chat(
      ServerContext* /*context*/,
      ServerReaderWriter<EchoMessage, EchoMessage>* stream) override {
    EchoMessage message;
    while (stream->Read(&message) && stream->Write(message)) {
    }
    return absl::OkStatus();
  }
  absl::Status Send(ServerContext* /*context*/, const EchoMessage* request,
                    ServerWriter<EchoMessage>* writer) override {
    while (writer->Write(*request)) {
    }
    return absl::OkStatus();
  }
};

class CallbackService final : public EchoService::CallbackService {
  using Bidi = ServerBidiReactor<EchoMessage, EchoMessage>;
  using Write = ServerWriteReactor<EchoMessage>;

  Bidi* Chat(CallbackServerContext* /*context*/) override {
    return new ChatReactor<Bidi, EchoMessage, absl::Status>;
  }
  Write* Send(CallbackServerContext* /*context*/,
              const EchoMessage* request) override {
    return new SendReactor<Write, EchoMessage, absl::Status>(request);
  }
};

// A caller with its own stub, on a channel that other callers may share.
struct Caller {
  Caller(const std::shared_ptr<Channel>& channel, const CallersOptions& options)
      : stub(EchoService::NewStub(channel)) {
    request.set_payload(options.payload);
    if (options.kind == "bidi") chat = stub->Chat(&stream_context);
    if (options.kind == "server") reader = stub->Send(&stream_context, request);
  }

  absl::Status Call() {
    if (chat != nullptr) {
      if (!chat->Write(request) || !chat->Read(&reply)) return chat->Finish();
    } else if (reader != nullptr) {
      if (!reader->Read(&reply)) return reader->Finish();
    } else {
      ClientContext context;
      RETURN_IF_ERROR(stub->Echo(&context, request, &reply));
    }
    return CheckEcho(request, reply);
  }

  const std::unique_ptr<EchoService::Stub> stub;
  EchoMessage request;
  EchoMessage reply;
  ClientContext stream_context;
  // The stream whose messages are the calls. Both are null for unary calls.
  std::unique_ptr<ClientReaderWriter<EchoMessage, EchoMessage>> chat;
  std::unique_ptr<ClientReader<EchoMessage>> reader;
};

class VerbenaPeer final : public Peer {
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
      builder.RegisterService(&callback_service_);
    } else {
      builder.RegisterService(&service_);
    }
    if (server == "inline") builder.SetHandlerMode(HandlerMode::kInline);
    ASSIGN_OR_RETURN(server_, builder.BuildAndStart());
    return server_->listening().front().address;
  }

  absl::StatusOr<std::vector<BlockingCall>> Connect(
      const std::string& address, const CallersOptions& options) override {
    for (int i = 0; i < options.channels; ++i) {
      channels_.push_back(CreateChannel(address));
    }
    std::vector<BlockingCall> echoes;
    for (int i = 0; i < options.callers; ++i) {
      auto caller =
          std::make_shared<Caller>(channels_[i % options.channels], options);
      echoes.push_back([caller] { return caller->Call(); });
    }
    return echoes;
  }

 private:
  Service service_;
  CallbackService callback_service_;
  std::unique_ptr<Server> server_;
  std::vector<std::shared_ptr<Channel>> channels_;
};

}  // namespace
}  // namespace verbena::peers

int main(int argc, char** argv) {
  verbena::peers::VerbenaPeer peer;
  return verbena::peers::RunPeer(argc, argv, peer);
}
