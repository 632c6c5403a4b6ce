#include "tools/rpc_bench/transport_layer.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "tools/rpc_bench/echo_loop.h"
#include "transport/base/check.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/status_macros.h"
#include "transport/connection/client_call.h"
#include "transport/connection/server_call.h"
#include "transport/device.h"
#include "transport/memory/buffer_pool.h"

namespace verbena::bench {
namespace {

using transport::Buffer;
using transport::CallResponse;
using transport::ClientCall;
using transport::ClientConnection;
using transport::ReplyWriter;
using transport::ServerCall;
using transport::ServerEndpoint;

class TransportPipe final : public EchoPipe {
 public:
  TransportPipe(ClientConnection& connection, const Case& measured, bool events)
      : connection_(connection),
        case_(measured),
        events_(events),
        payload_(Payload(measured.size_bytes)) {
    for (int i = 0; i < measured.outstanding; ++i) {
      calls_.push_back(std::make_unique<Call>(*this, i));
    }
  }

  // Only a dead server leaves calls open.
  ~TransportPipe() override {
    for (const std::unique_ptr<Call>& call : calls_) {
      connection_.Cancel(call.get(), absl::CancelledError("the bench is over"));
    }
  }

  void Start(int slot) override {
    calls_[slot]->Prepare();
    connection_.Start(calls_[slot].get());
  }

  absl::Status Poll(Sink& sink, absl::Time until) override {
    sink_ = &sink;
    if (connection_.poller().PollOnce() == 0 && events_ &&
        absl::Now() < until) {
      connection_.poller().Sleep(until);
    }
    sink_ = nullptr;
    return failure_.ok() ? connection_.failure() : failure_;
  }

 private:
  class Call final : public ClientCall {
   public:
    Call(TransportPipe& pipe, int slot)
        : pipe_(pipe), slot_(slot), payload_(pipe.payload_) {
      request_.message_bytes = payload_.size();
      request_.reply_hint_bytes = payload_.size();
    }

    void Prepare() {
      if (!pipe_.case_.validate) return;
      Stamp(++pipe_.number_,
            absl::MakeSpan(reinterpret_cast<uint8_t*>(payload_.data()),
                           payload_.size()));
    }

    void WriteRequest(uint8_t* out) override {
      std::memcpy(out, payload_.data(), payload_.size());
    }

    void OnResponse(const CallResponse& response) override {
      if (response.code != absl::StatusCode::kOk) {
        pipe_.sink_->OnEnded(slot_,
                             absl::Status(response.code, "the server refused"));
        return;
      }
      const bool compare = pipe_.case_.validate || !pipe_.compared_;
      const absl::Status status = CheckEcho(
          response.message,
          absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(payload_.data()),
                              payload_.size()),
          compare);
      if (status.ok()) pipe_.compared_ = true;
      pipe_.sink_->OnEnded(slot_, status);
    }

    // The transport's reasons are those of all calls.
    void OnFailed(const absl::Status& status) override {
      if (pipe_.failure_.ok()) pipe_.failure_ = status;
    }

   private:
    TransportPipe& pipe_;
    const int slot_;
    std::string payload_;
  };

  ClientConnection& connection_;
  const Case case_;
  const bool events_;
  const std::string payload_;
  std::vector<std::unique_ptr<Call>> calls_;
  Sink* sink_ = nullptr;   // While polling, which is when responses come.
  absl::Status failure_;   // Why the transport ended a call.
  bool compared_ = false;  // The contents of an echo were found right.
  uint64_t number_ = 0;    // The last call's, for stamps.
};

}  // namespace

TransportLayer::TransportLayer(const base::SocketAddress& server,
                               const transport::EndpointOptions& options)
    : server_(server), options_(options) {}

TransportLayer::~TransportLayer() = default;

absl::Status TransportLayer::Prepare(const Case& /*measured*/) {
  ASSIGN_OR_RETURN(connection_,
                   ClientConnection::Connect(
                       transport::ChooseProvider(server_, options_.device),
                       server_, options_));
  return absl::OkStatus();
}

void TransportLayer::Release() { connection_.reset(); }

Sample TransportLayer::Run(const Case& measured, absl::Duration duration) {
  connection_->poller().Enter();
  Sample sample;
  {
    TransportPipe pipe(*connection_, measured,
                       options_.spin_budget == absl::ZeroDuration());
    sample = RunEchoes(pipe, measured, duration);
  }
  connection_->poller().Leave();
  return sample;
}

// One poller's: no lock.
class TransportServer::Handler final : public transport::ServerHandler {
 public:
  void OnCall(ServerCall* call) override {
    const absl::Span<const uint8_t> message = call->message();
    if (uint8_t* const out = call->BeginReply(message.size())) {
      std::memcpy(out, message.data(), message.size());
      return call->SendReply();
    }
    ServerCall::Reply reply;
    reply.message_bytes = message.size();
    if (message.size() > transport::kFrameReplyBytes) {
      absl::StatusOr<Buffer> buffer = call->AllocateReply(message.size());
      if (buffer.ok()) {
        std::memcpy(buffer->data(), message.data(), message.size());
        reply.buffer = *std::move(buffer);
        call->Finish(std::move(reply));
        return;
      }
    }
    if (!message.empty()) reply.writer = CopyOf(message);
    call->Finish(std::move(reply));
  }

  void OnCancelled(ServerCall* /*call*/) override {}

 private:
  // A reply that may have to wait for room, when the request is gone.
  class Copy final : public ReplyWriter {
   public:
    explicit Copy(Handler& handler) : handler_(handler) {}
    void WriteReply(uint8_t* out) override {
      std::memcpy(out, bytes.data(), bytes.size());
    }
    void OnReplyDone() override { handler_.free_.push_back(this); }

    std::vector<uint8_t> bytes;

   private:
    Handler& handler_;
  };

  Copy* CopyOf(absl::Span<const uint8_t> message) {
    if (free_.empty()) {
      all_.push_back(std::make_unique<Copy>(*this));
      free_.push_back(all_.back().get());
      free_.reserve(all_.size());
    }
    Copy* const copy = free_.back();
    free_.pop_back();
    copy->bytes.assign(message.begin(), message.end());
    return copy;
  }

  std::vector<std::unique_ptr<Copy>> all_;
  std::vector<Copy*> free_;
};

TransportServer::TransportServer() : handler_(std::make_unique<Handler>()) {}

TransportServer::~TransportServer() = default;

absl::StatusOr<std::unique_ptr<TransportServer>> TransportServer::Start(
    const std::string& host,
    const transport::EndpointOptions& endpoint_options) {
  std::unique_ptr<TransportServer> server =
      absl::WrapUnique(new TransportServer());
  ServerEndpoint::Options options;
  options.endpoint = endpoint_options;
  options.addresses = {absl::StrCat(host, ":0")};
  ASSIGN_OR_RETURN(server->endpoint_,
                   ServerEndpoint::Start(options, *server->handler_));
  return server;
}

}  // namespace verbena::bench
