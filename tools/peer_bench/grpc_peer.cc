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
#include "tools/peer_bench/echo_reactors.h"
#include "tools/peer_bench/peer.h"

namespace verbena::peers {
namespace {

class SyncService final : public EchoService::Service {
  grpc::Status Echo(grpc::ServerContext* /*context*/,
                    const EchoMessage* request, EchoMessage* reply) override {
    reply->set_payload(request->payload());
    return grpc::Status::OK;
  }
  grpc::Status Chat(
      grpc::ServerContext* /*context*/,
      grpc::ServerReaderWriter<EchoMessage, EchoMessage>* stream) override {
    EchoMessage message;
    while (stream->Read(&message) && stream->Write(message)) {
    }
    return grpc::Status::OK;
  }
  grpc::Status Send(grpc::ServerContext* /*context*/,
                    const EchoMessage* request,
                    grpc::ServerWriter<EchoMessage>* writer) override {
    while (writer->Write(*request)) {
    }
    return grpc::Status::OK;
  }
};

class ReactorService final : public EchoService::CallbackService {
  using Bidi = grpc::ServerBidiReactor<EchoMessage, EchoMessage>;
  using Write = grpc::ServerWriteReactor<EchoMessage>;

  Bidi* Chat(grpc::CallbackServerContext* /*context*/) override {
    return new ChatReactor<Bidi, EchoMessage, grpc::Status>;
  }
  Write* Send(grpc::CallbackServerContext* /*context*/,
              const EchoMessage* request) override {
    return new SendReactor<Write, EchoMessage, grpc::Status>(request);
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

// A caller with its own stub, on a channel that other callers may share.
struct Caller {
  Caller(const std::shared_ptr<grpc::Channel>& channel,
         const CallersOptions& options)
      : stub(EchoService::NewStub(channel)) {
    request.set_payload(options.payload);
    if (options.kind == "bidi") chat = stub->Chat(&stream_context);
    if (options.kind == "server") reader = stub->Send(&stream_context, request);
  }
  ~Caller() {
    stream_context.TryCancel();
    if (chat != nullptr) chat->Finish();
    if (reader != nullptr) reader->Finish();
  }

  absl::Status Call() {
    grpc::Status status;
    if (chat != nullptr) {
      if (!chat->Write(request) || !chat->Read(&reply)) return Lost();
    } else if (reader != nullptr) {
      if (!reader->Read(&reply)) return Lost();
    } else {
      grpc::ClientContext context;
      status = stub->Echo(&context, request, &reply);
    }
    if (!status.ok()) {
      return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                          status.error_message());
    }
    return CheckEcho(request, reply);
  }
  static absl::Status Lost() {
    return absl::UnavailableError("gRPC has lost the stream");
  }

  std::unique_ptr<EchoService::Stub> stub;
  EchoMessage request;
  EchoMessage reply;
  grpc::ClientContext stream_context;
  // The stream whose messages are the calls. Both are null for unary calls.
  std::unique_ptr<grpc::ClientReaderWriter<EchoMessage, EchoMessage>> chat;
  std::unique_ptr<grpc::ClientReader<EchoMessage>> reader;
};

class GrpcPeer final : public Peer {
 public:
  std::vector<std::string> servers() const override {
    return {"sync", "cq", "callback"};
  }
  std::vector<std::string> kinds(const std::string& server) const override {
    if (server == "cq") return {"unary"};
    if (server == "callback") return {"bidi", "server"};
    return {"unary", "bidi", "server"};
  }

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
    for (const std::unique_ptr<grpc::ServerCompletionQueue>& queue : queues_) {
      std::thread(ServeQueue, &queued_service_, queue.get()).detach();
    }
    // A Unix socket (unix:PATH) has no port.
    if (absl::StartsWith(address, "unix")) return address;
    const absl::string_view host =
        absl::string_view(address).substr(0, address.rfind(':'));
    return absl::StrCat(host, ":", port);
  }

  absl::StatusOr<std::vector<BlockingCall>> Connect(
      const std::string& address, const CallersOptions& options) override {
    grpc::ChannelArguments arguments;
    // Otherwise all channels to one address share one connection.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    for (int i = 0; i < options.channels; ++i) {
      channels_.push_back(grpc::CreateCustomChannel(
          address, grpc::InsecureChannelCredentials(), arguments));
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
  SyncService sync_service_;
  ReactorService reactor_service_;
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
