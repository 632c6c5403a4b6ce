#include "tools/rpc_bench/transport_layer.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tools/load/echo_loop.h"
#include "transport/base/clock.h"
#include "transport/base/status_macros.h"
#include "transport/client/client_call.h"
#include "transport/client/client_connection.h"
#include "transport/client/lone_connection.h"
#include "transport/device.h"
#include "transport/memory/buffer_pool.h"

namespace verbena::bench {
namespace {

using transport::Buffer;
using transport::CallResponse;
using transport::ClientCall;
using transport::ClientConnection;
using transport::LoneConnection;
using transport::ReplyWriter;
using transport::ServerCall;

// Polls the connection as long as it is there.
class TransportPipe final : public EchoPipe {
 public:
  TransportPipe(ClientConnection& connection, const Case& measured, bool events)
      : connection_(connection), events_(events), check_(measured.validate) {
    // From here on this thread owns the poller.
    connection_.poller().Enter();
    for (int i = 0; i < measured.outstanding; ++i) {
      calls_.push_back(
          std::make_unique<Call>(*this, i, Payload(measured.size_bytes)));
    }
  }

  // Cancels open calls, which there are only if the server is dead.
  ~TransportPipe() override {
    for (const std::unique_ptr<Call>& call : calls_) {
      connection_.Cancel(call.get(), absl::CancelledError("the bench is over"));
    }
    connection_.poller().Leave();
  }

  void Start(int slot) override {
    check_.Stamp(BytesOf(calls_[slot]->payload));
    connection_.Start(calls_[slot].get());
  }

  absl::Status Poll(Sink& sink, absl::Time until) override {
    sink_ = &sink;
    // Sleeps only with --events; otherwise both sides poll.
    if (connection_.poller().PollOnce() == 0 && events_ &&
        base::Now() < until) {
      connection_.poller().Sleep(until);
    }
    sink_ = nullptr;
    return failure_.ok() ? connection_.failure() : failure_;
  }

 private:
  struct Call final : public ClientCall {
    Call(TransportPipe& pipe, int slot, std::string payload)
        : pipe(pipe), slot(slot), payload(std::move(payload)) {
      request_.message_bytes = this->payload.size();
      request_.reply_hint_bytes = this->payload.size();
    }

    // The transport calls this when it has a place for the bytes.
    void WriteRequest(uint8_t* out) override {
      std::memcpy(out, payload.data(), payload.size());
    }

    // Comes from within Poll(), which has set the sink.
    void OnResponse(const CallResponse& response) override {
      pipe.sink_->OnEnded(
          slot, response.code == absl::StatusCode::kOk
                    ? pipe.check_.Compare(response.message, BytesOf(payload))
                    : absl::Status(response.code, "the server refused"));
    }

    // An error of the transport ends all calls, so the first one is kept.
    void OnFailed(const absl::Status& status) override {
      if (pipe.failure_.ok()) pipe.failure_ = status;
    }

    TransportPipe& pipe;
    const int slot;
    std::string payload;
  };

  ClientConnection& connection_;
  const bool events_;
  EchoCheck check_;
  std::vector<std::unique_ptr<Call>> calls_;
  Sink* sink_ = nullptr;  // Set by Poll(), in which responses come.
  absl::Status failure_;  // The error with which the transport ended a call.
};

// A reply that may have to wait for room, when the request is gone. Deletes
// itself when it has been sent.
class Copy final : public ReplyWriter {
 public:
  explicit Copy(absl::Span<const uint8_t> message)
      : bytes_(message.begin(), message.end()) {}
  void WriteReply(uint8_t* out) override {
    std::memcpy(out, bytes_.data(), bytes_.size());
  }
  void OnReplyDone() override { delete this; }

 private:
  const std::vector<uint8_t> bytes_;
};

// Calls over a single connection, without channels and without protobuf.
class TransportLayer final : public Layer {
 public:
  TransportLayer(const base::SocketAddress& server,
                 const transport::EndpointOptions& options)
      : server_(server), options_(options) {}

  absl::string_view name() const override { return "transport"; }

  // Connects anew for each case; Release() ends the connection.
  absl::Status Prepare(const Case& /*measured*/) override {
    ASSIGN_OR_RETURN(connection_,
                     LoneConnection::Connect(
                         transport::ChooseProvider(server_, options_.device),
                         server_, options_));
    return absl::OkStatus();
  }

  Sample Run(const Case& measured, absl::Duration duration) override {
    TransportPipe pipe(*connection_, measured,
                       options_.spin_budget == absl::ZeroDuration());
    return RunEchoes(pipe, measured, duration);
  }

  void Release() override { connection_.Reset(); }

 private:
  const base::SocketAddress server_;
  const transport::EndpointOptions options_;
  // Null between Release() and Prepare().
  LoneConnection connection_;
};

}  // namespace

std::unique_ptr<Layer> NewTransportLayer(
    const base::SocketAddress& server,
    const transport::EndpointOptions& options) {
  return std::make_unique<TransportLayer>(server, options);
}

// Answers in the fastest way that works: in place, from a buffer of registered
// memory, or by a copy that waits for room.
void TransportEcho::OnCall(ServerCall* call) {
  const absl::Span<const uint8_t> message = call->message();
  if (uint8_t* const out = call->BeginReply(message.size())) {
    std::memcpy(out, message.data(), message.size());
    return call->SendReply();
  }
  ServerCall::Reply reply;
  reply.message_bytes = message.size();
  // Longer replies are WRITTEN, which takes registered memory.
  if (message.size() > transport::kFrameReplyBytes) {
    absl::StatusOr<Buffer> buffer = call->AllocateReply(message.size());
    if (buffer.ok()) {
      std::memcpy(buffer->data(), message.data(), message.size());
      reply.buffer = *std::move(buffer);
      return call->Finish(std::move(reply));
    }
  }
  if (!message.empty()) reply.writer = new Copy(message);
  call->Finish(std::move(reply));
}

}  // namespace verbena::bench
