// The server's side of one call, for its handler.

#ifndef VERBENA_RPC_SERVER_CONTEXT_H_
#define VERBENA_RPC_SERVER_CONTEXT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rpc/buffer.h"
#include "rpc/internal/call/server_call_state.h"
#include "rpc/metadata.h"
#include "transport/base/clock.h"

namespace verbena {

// Lives from before the handler is entered until it has returned. IsCancelled()
// may be called from any thread in that time, everything else by one thread at
// a time.
class ServerContext {
 public:
  // `call` must outlive it.
  explicit ServerContext(internal::ServerCallState* call) : call_(call) {}
  ServerContext(const ServerContext&) = delete;
  ServerContext& operator=(const ServerContext&) = delete;

  // The time when the client gives the call up, by this host's wall clock as it
  // stands now. InfiniteFuture() if the client set no deadline.
  absl::Time deadline() const { return base::ToWallClock(call_->data().due); }

  // Whether nobody waits for the reply any more: the client cancelled, its
  // deadline passed, the connection is lost, a message of the stream could not
  // be read or written, or the server shuts down and ran out of patience. A
  // handler that takes long should call this now and then, and return when it
  // is true. If it was true because the deadline has passed, the call ends with
  // DEADLINE_EXCEEDED, whatever the handler returns.
  bool IsCancelled() const { return call_->IsCancelled(); }

  // Requests a stop when the client cancels, its deadline passes at its side,
  // or it is gone. A std::stop_callback of the token runs on the thread that
  // polls the network, and must take microseconds.
  std::stop_token stop_token() { return call_->stop_token(); }

  // For a unary method of a CallbackService that needs no reactor of its own:
  // returns a reactor that has nothing but Finish(). Once a call. The library
  // owns it.
  ServerUnaryReactor* DefaultReactor() { return call_->DefaultReactor(); }

  // The method that is called, "package.Service/Method".
  const std::string& method() const { return call_->method(); }

  // The client's address, "10.0.0.9:41234".
  const std::string& peer() const { return call_->peer(); }

  // The client's identity, as far as the port's credentials and the
  // AuthMetadataProcessor have found out: an AuthContext of rpc/credentials.h.
  // Never null. Empty, and not authenticated, for a port without credentials.
  std::shared_ptr<const transport::AuthContext> auth_context() const {
    return call_->auth_context();
  }

  // The device that carries the call: "soft", "rxe0".
  const std::string& device() const { return call_->device(); }

  // Metadata that the client added to its context.
  const Metadata& client_metadata() const {
    return call_->data().client_metadata;
  }

  // Adds a pair to the initial metadata, which go out with
  // SendInitialMetadata(), or else with the first message of a stream or the
  // end of the call. Does nothing after that. If they are more than the client
  // takes (see metadata.h), the answer becomes RESOURCE_EXHAUSTED.
  void AddInitialMetadata(absl::string_view key, absl::string_view value) {
    call_->data().initial_metadata.emplace(absl::AsciiStrToLower(key), value);
  }
  // Sends the initial metadata now, even if there are none; the client may see
  // them while the handler goes on. Only the first call has an effect. Not
  // while another thread writes to the stream.
  void SendInitialMetadata() { call_->SendInitialMetadata(); }

  // Sends a pair along with the reply or the error. If the pairs are more than
  // the client takes, the reply becomes RESOURCE_EXHAUSTED.
  void AddTrailingMetadata(absl::string_view key, absl::string_view value) {
    call_->data().trailing_metadata.emplace(absl::AsciiStrToLower(key), value);
  }

  // Bytes that the client sent beside its request; empty if there are none.
  // Nobody else can change them. Valid until the handler returns.
  // TakeRequestAttachment() keeps them longer, to send them back or on without
  // a copy, say.
  absl::Span<const uint8_t> request_attachment() const {
    return call_->data().request_attachment.span();
  }
  Buffer TakeRequestAttachment() {
    return std::move(call_->data().request_attachment);
  }

  // Returns memory to fill and send back: the device's, or plain memory if the
  // device has none left now.
  Buffer AllocateBuffer(size_t bytes) const {
    return call_->AllocateBuffer(bytes);
  }

  // Sends bytes beside the response, if the handler returns OK. A Buffer of
  // AllocateBuffer() or TakeRequestAttachment() goes without a copy if it is
  // longer than a few KiB; leave its bytes alone from then on. Other bytes are
  // copied here and now.
  void set_response_attachment(Buffer attachment) {
    call_->data().response_attachment = std::move(attachment);
  }
  void set_response_attachment(absl::Span<const uint8_t> attachment) {
    Buffer buffer = AllocateBuffer(attachment.size());
    std::copy(attachment.begin(), attachment.end(), buffer.span().begin());
    set_response_attachment(std::move(buffer));
  }

 private:
  friend class ClientContext;

  internal::ServerCallState* const call_;
};

}  // namespace verbena

#endif  // VERBENA_RPC_SERVER_CONTEXT_H_
