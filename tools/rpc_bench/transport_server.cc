#include "tools/rpc_bench/transport_server.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/status_macros.h"
#include "transport/memory/buffer_pool.h"

namespace verbena::bench {

using transport::Buffer;
using transport::ReplyWriter;
using transport::ServerCall;
using transport::ServerEndpoint;

// One poller's: no lock.
class TransportServer::Handler final : public transport::ServerHandler {
 public:
  void OnCall(ServerCall* call) override {
    const absl::Span<const uint8_t> message = call->message();
    ServerCall::Reply reply;
    reply.message_bytes = message.size();
    if (message.size() > ServerCall::kFrameReplyBytes) {
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
