// gRPC C++, as its examples use it.

#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tools/peer_bench/echo.grpc.pb.h"
#include "tools/peer_bench/peer.h"

namespace verbena::peers {
namespace {

class SyncService final : public EchoService::Service {
  grpc::Status Echo(grpc::ServerContext* /*context*/,
                    const EchoMessage* request, EchoMessage* reply) override {
    reply->set_payload(request->payload());
    return grpc::Status::OK;
  }
};

// One call of the server that has completion queues: waits for a request,
// answers it, and is told when the answer is on its way. Owned by the queue.
class QueuedCall {
 public:
  QueuedCall(EchoService::AsyncService* service,
             grpc::ServerCompletionQueue* queue)
      : service_(service), queue_(queue), responder_(&context_) {
    service_->RequestEcho(&context_, &request_, &responder_, queue_, queue_,
                          this);
  }

  // Something happened, and it went well if `ok`. Returns whether there is more
  // to come; if not, whoever took the call from the queue destroys it.
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

// One caller: a stub of its own, on a channel that others may share.
struct Caller {
  Caller(const std::shared_ptr<grpc::Channel>& channel,
         const std::string& payload)
      : stub(EchoService::NewStub(channel)) {
    request.set_payload(payload);
  }

  absl::Status Call() {
    grpc::ClientContext context;
    const grpc::Status status = stub->Echo(&context, request, &reply);
    if (!status.ok()) {
      return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                          status.error_message());
    }
    return CheckEcho(request, reply);
  }

  std::unique_ptr<EchoService::Stub> stub;
  EchoMessage request;
  EchoMessage reply;
};

class GrpcPeer final : public Peer {
 public:
  std::vector<std::string> servers() const override { return {"sync", "cq"}; }

  absl::StatusOr<std::string> Serve(const std::string& server,
                                    const std::string& address) override {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
    if (server == "sync") {
      builder.RegisterService(&sync_service_);
    } else {
      builder.RegisterService(&queued_service_);
      // As gRPC advises: a queue and a thread a processor.
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
    for (const std::unique_ptr<grpc::ServerCompletionQueue>& queue : queues_) {
      std::thread(ServeQueue, &queued_service_, queue.get()).detach();
    }
    // A Unix socket (unix:PATH) has no port.
    if (absl::StartsWith(address, "unix")) return address;
    const absl::string_view host =
        absl::string_view(address).substr(0, address.rfind(':'));
    return absl::StrCat(host, ":", port);
  }

  absl::StatusOr<std::vector<Echo>> Connect(
      const std::string& address, const CallersOptions& options) override {
    grpc::ChannelArguments arguments;
    // Otherwise all channels to one address share one connection.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    for (int i = 0; i < options.channels; ++i) {
      channels_.push_back(grpc::CreateCustomChannel(
          address, grpc::InsecureChannelCredentials(), arguments));
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
  SyncService sync_service_;
  EchoService::AsyncService queued_service_;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
};

}  // namespace
}  // namespace verbena::peers

int main(int argc, char** argv) {
  verbena::peers::GrpcPeer peer;
  return verbena::peers::RunPeer(argc, argv, peer);
}
