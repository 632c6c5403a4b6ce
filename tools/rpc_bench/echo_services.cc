#include "tools/rpc_bench/echo_services.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rpc/buffer.h"
#include "rpc/server_context.h"
#include "rpc/server_coroutine.h"
#include "rpc/server_reactor.h"
#include "rpc/server_stream.h"
#include "rpc/task.h"
#include "tools/rpc_bench/echo.verbena.h"

namespace verbena::bench {
namespace {

// The attachment goes back as it came, without a copy.
void DoEcho(ServerContext* context, const EchoRequest& request,
            EchoReply* reply) {
  reply->set_payload(request.payload());
  context->set_response_attachment(context->TakeRequestAttachment());
}

// Returns the message that Send repeats. Its payload is empty if the request
// asks for the payload beside the message.
EchoReply Sent(const EchoRequest& request) {
  EchoReply reply;
  if (!request.beside()) reply.set_payload(request.payload());
  return reply;
}
Buffer SentBeside(const ServerContext& context, const EchoRequest& request) {
  if (!request.beside()) return Buffer();
  Buffer beside = context.AllocateBuffer(request.payload().size());
  if (!beside.empty()) {
    std::memcpy(beside.data(), request.payload().data(), beside.size());
  }
  return beside;
}

class BlockingEcho final : public Echo::Service {
 public:
  // Handlers run inline, so that no switch to a worker thread is measured.
  BlockingEcho() { set_handler_mode(HandlerMode::kInline); }

  absl::Status Echo(ServerContext* context, const EchoRequest* request,
                    EchoReply* reply) override {
    DoEcho(context, *request, reply);
    return absl::OkStatus();
  }

  absl::Status Chat(
      ServerContext* /*context*/,
      ServerReaderWriter<EchoReply, EchoRequest>* stream) override {
    EchoRequest request;
    EchoReply reply;
    Buffer attachment;
    while (stream->Read(&request, &attachment)) {
      reply.mutable_payload()->swap(*request.mutable_payload());
      if (!stream->Write(reply, attachment)) break;
    }
    return absl::OkStatus();
  }

  absl::Status Send(ServerContext* context, const EchoRequest* request,
                    ServerWriter<EchoReply>* writer) override {
    const EchoReply reply = Sent(*request);
    const Buffer beside = SentBeside(*context, *request);
    while (writer->Write(reply, beside)) {
    }
    return absl::OkStatus();
  }

  absl::Status Receive(ServerContext* /*context*/,
                       ServerReader<EchoRequest>* reader,
                       ReceiveReply* reply) override {
    EchoRequest request;
    Buffer attachment;
    uint64_t messages = 0;
    while (reader->Read(&request, &attachment)) ++messages;
    reply->set_messages(messages);
    return absl::OkStatus();
  }
};

// Reads and writes in turn, so at most one operation is under way.
class Chatter final : public ServerBidiReactor<EchoRequest, EchoReply> {
 public:
  Chatter() { StartRead(&request_, &attachment_); }
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(absl::OkStatus());
    reply_.mutable_payload()->swap(*request_.mutable_payload());
    StartWrite(&reply_, attachment_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(absl::OkStatus());
    StartRead(&request_, &attachment_);
  }
  void OnDone() override { delete this; }

 private:
  EchoRequest request_;
  EchoReply reply_;
  Buffer attachment_;
};

// Writes until the client cancels the call or goes away.
class Sender final : public ServerWriteReactor<EchoReply> {
 public:
  Sender(const ServerContext& context, const EchoRequest& request)
      : reply_(Sent(request)), beside_(SentBeside(context, request)) {
    OnWriteDone(true);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(absl::OkStatus());
    StartWrite(&reply_, beside_);
  }
  void OnDone() override { delete this; }

 private:
  const EchoReply reply_;
  const Buffer beside_;
};

// Counts what it reads, which the client compares with what it has written.
class Receiver final : public ServerReadReactor<EchoRequest> {
 public:
  explicit Receiver(ReceiveReply* reply) : reply_(*reply) {
    StartRead(&request_, &attachment_);
  }
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(absl::OkStatus());
    reply_.set_messages(reply_.messages() + 1);
    StartRead(&request_, &attachment_);
  }
  void OnDone() override { delete this; }

 private:
  ReceiveReply& reply_;
  EchoRequest request_;
  Buffer attachment_;
};

// As BlockingEcho, with a reactor for each stream.
class CallbackEcho final : public Echo::CallbackService {
 public:
  ServerUnaryReactor* Echo(CallbackServerContext* context,
                           const EchoRequest* request,
                           EchoReply* reply) override {
    DoEcho(context, *request, reply);
    ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(absl::OkStatus());
    return reactor;
  }
  ServerBidiReactor<EchoRequest, EchoReply>* Chat(
      CallbackServerContext* /*context*/) override {
    return new Chatter;
  }
  ServerWriteReactor<EchoReply>* Send(CallbackServerContext* context,
                                      const EchoRequest* request) override {
    return new Sender(*context, *request);
  }
  ServerReadReactor<EchoRequest>* Receive(CallbackServerContext* /*context*/,
                                          ReceiveReply* reply) override {
    return new Receiver(reply);
  }
};

// As BlockingEcho, with `co_await` where that blocks.
class CoroutineEcho final : public Echo::CoroutineService {
 public:
  Task<absl::Status> Echo(ServerContext* context, const EchoRequest* request,
                          EchoReply* reply) override {
    DoEcho(context, *request, reply);
    co_return absl::OkStatus();
  }
  Task<absl::Status> Chat(
      ServerContext* /*context*/,
      CoroutineServerReaderWriter<EchoReply, EchoRequest>* stream) override {
    EchoRequest request;
    EchoReply reply;
    Buffer attachment;
    while (co_await stream->Read(&request, &attachment)) {
      reply.mutable_payload()->swap(*request.mutable_payload());
      if (!co_await stream->Write(reply, attachment)) break;
    }
    co_return absl::OkStatus();
  }
  Task<absl::Status> Send(ServerContext* context, const EchoRequest* request,
                          CoroutineServerWriter<EchoReply>* writer) override {
    const EchoReply reply = Sent(*request);
    const Buffer beside = SentBeside(*context, *request);
    while (co_await writer->Write(reply, beside)) {
    }
    co_return absl::OkStatus();
  }
  Task<absl::Status> Receive(ServerContext* /*context*/,
                             CoroutineServerReader<EchoRequest>* reader,
                             ReceiveReply* reply) override {
    EchoRequest request;
    Buffer attachment;
    uint64_t messages = 0;
    while (co_await reader->Read(&request, &attachment)) ++messages;
    reply->set_messages(messages);
    co_return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<Service> NewEchoService(Api api) {
  switch (api) {
    case Api::kCallback:
      return std::make_unique<CallbackEcho>();
    case Api::kCoroutine:
      return std::make_unique<CoroutineEcho>();
    default:
      return std::make_unique<BlockingEcho>();
  }
}

}  // namespace verbena::bench
