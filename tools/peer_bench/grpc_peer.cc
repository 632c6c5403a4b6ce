// gRPC C++, as its examples use it.

#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tools/peer_bench/echo.grpc.pb.h"
#include "tools/peer_bench/peer.h"
#include "tools/peer_bench/rpc_peer.h"

namespace verbena::peers {
namespace {

struct GrpcSide {
  using Rpc = EchoService;
  using Status = grpc::Status;
  using Channel = grpc::Channel;
  using ClientContext = grpc::ClientContext;
  using ServerContext = grpc::ServerContext;
  using CallbackContext = grpc::CallbackServerContext;
  using ReaderWriter = grpc::ServerReaderWriter<EchoMessage, EchoMessage>;
  using Writer = grpc::ServerWriter<EchoMessage>;
  using BidiReactor = grpc::ServerBidiReactor<EchoMessage, EchoMessage>;
  using WriteReactor = grpc::ServerWriteReactor<EchoMessage>;
  using ClientReaderWriter = grpc::ClientReaderWriter<EchoMessage, EchoMessage>;
  using ClientReader = grpc::ClientReader<EchoMessage>;

  static std::shared_ptr<Channel> NewChannel(const std::string& address) {
    grpc::ChannelArguments arguments;
    // Otherwise all channels to one address share one connection.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(
        address, grpc::InsecureChannelCredentials(), arguments);
  }
  static absl::Status ToAbsl(const Status& status) {
    if (status.ok()) return absl::OkStatus();
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                        status.error_message());
  }
};

// A call at the server that has completion queues. It waits for a request,
// answers it, and is told when the reply is on its way. Owned by the queue.
class QueuedCall {
 public:
  QueuedCall(EchoService::AsyncService* service,
             grpc::ServerCompletionQueue* queue)
      : service_(service), queue_(queue), responder_(&context_) {
    service_->RequestEcho(&context_, &request_, &responder_, queue_, queue_,
                          this);
  }

  // Handles an event of the call, which succeeded if `ok`. Returns whether more
  // events will come; if not, the thread that took the event destroys the call.
  bool Proceed(bool ok) {
    if (answered_ || !ok) return false;
    answered_ = true;
    new QueuedCall(service_, queue_);  // For the next request.
    reply_.set_payload(request_.payload());
    responder_.Finish(reply_, grpc::Status::OK, this);
    return true;
  }

 private:
  EchoService::AsyncService* const service_;
  grpc::ServerCompletionQueue* const queue_;
  grpc::ServerContext context_;
  grpc::ServerAsyncResponseWriter<EchoMessage> responder_;
  EchoMessage request_;
  EchoMessage reply_;
  bool answered_ = false;
};

// A call always waits in the queue, because each that gets a request adds its
// successor.
void ServeQueue(EchoService::AsyncService* service,
                grpc::ServerCompletionQueue* queue) {
  new QueuedCall(service, queue);
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) {
    auto* call = static_cast<QueuedCall*>(tag);
    if (!call->Proceed(ok)) delete call;
  }
}

// Three kinds of servers: threads that block, completion queues, and reactors.
class GrpcPeer final : public RpcPeer<GrpcSide> {
 public:
  std::vector<std::string> servers() const override {
    return {"sync", "cq", "callback"};
  }
  std::vector<std::string> kinds(const std::string& server) const override {
    if (server == "cq") return {"unary"};
    if (server == "callback") return {"bidi", "server"};
    return {"unary", "bidi", "server"};
  }

  // Registers one service by the kind of server, and for "cq" starts the
  // threads of the queues.
  absl::StatusOr<std::string> Serve(const std::string& server,
                                    const std::string& address) override {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
    if (server == "sync") {
      builder.RegisterService(&sync_service_);
    } else if (server == "callback") {
      builder.RegisterService(&reactor_service_);
    } else {
      builder.RegisterService(&queued_service_);
      // As gRPC advises, each processor has a queue and a thread.
      const unsigned processors =
          std::max(1U, std::thread::hardware_concurrency());
      for (unsigned i = 0; i < processors; ++i) {
        queues_.push_back(builder.AddCompletionQueue());
      }
    }
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) {
      return absl::UnavailableError(
          absl::StrCat("gRPC cannot listen at ", address));
    }
    // After BuildAndStart(), because only a server that has started takes
    // requests for calls. Threads are never joined: the process ends by
    // _exit().
    for (const std::unique_ptr<grpc::ServerCompletionQueue>& queue : queues_) {
      std::thread(ServeQueue, &queued_service_, queue.get()).detach();
    }
    // A Unix socket (unix:PATH) has no port.
    if (absl::StartsWith(address, "unix")) return address;
    const absl::string_view host =
        absl::string_view(address).substr(0, address.rfind(':'));
    return absl::StrCat(host, ":", port);
  }

 private:
  BlockingService<GrpcSide> sync_service_;
  ReactorService<GrpcSide> reactor_service_;
  EchoService::AsyncService queued_service_;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace
}  // namespace verbena::peers

int main(int argc, char** argv) {
  verbena::peers::GrpcPeer peer;
  return verbena::peers::RunPeer(argc, argv, peer);
}
