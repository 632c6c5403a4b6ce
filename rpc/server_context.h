// The server's side of one call, for its handler.

#ifndef VERBENA_RPC_SERVER_CONTEXT_H_
#define VERBENA_RPC_SERVER_CONTEXT_H_

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
#include "rpc/metadata.h"
#include "transport/base/clock.h"

namespace verbena {

class ServerUnaryReactor;

namespace internal {
class HandlerCall;
}  // namespace internal

namespace transport {
class AuthContext;  // verbena::AuthContext of rpc/credentials.h.
}  // namespace transport

// Lives from before the handler is entered until it has returned. IsCancelled()
// may be called from any thread in that time, everything else by one thread at
// a time.
class ServerContext {
 public:
  // For the library.
  explicit ServerContext(internal::HandlerCall* call) : call_(call) {}
  ServerContext(const ServerContext&) = delete;
  ServerContext& operator=(const ServerContext&) = delete;

  // The time when the client gives the call up, by this host's wall clock as it
  // stands now. InfiniteFuture() if the client set no deadline.
  absl::Time deadline() const { return base::ToWallClock(due_); }

  // Whether nobody waits for the reply any more: the client cancelled, its
  // deadline passed, the connection is lost, a message of the stream could not
  // be read or written, or the server shuts down and ran out of patience. A
  // handler that takes long should call this now and then, and return when it
  // is true. If it was true because the deadline has passed, the call ends with
  // DEADLINE_EXCEEDED, whatever the handler returns.
  bool IsCancelled() const;

  // Requests a stop when the client cancels, its deadline passes at its side,
  // or it is gone. A std::stop_callback of the token runs on the thread that
  // polls the network, and must take microseconds.
  std::stop_token stop_token();

  // For a unary method of a CallbackService that needs no reactor of its own:
  // returns a reactor that has nothing but Finish(). Once a call. The library
  // owns it.
  ServerUnaryReactor* DefaultReactor();

  // The method that is called, "package.Service/Method".
  const std::string& method() const;

  // The client's address, "10.0.0.9:41234".
  const std::string& peer() const;

  // The client's identity, as far as the port's credentials and the
  // AuthMetadataProcessor have found out. Never null. Empty, and not
  // authenticated, for a port without credentials.
  std::shared_ptr<const transport::AuthContext> auth_context() const;

  // The device that carries the call: "soft", "rxe0".
  const std::string& device() const;

  // Metadata that the client added to its context.
  const Metadata& client_metadata() const { return client_metadata_; }

  // Adds a pair to the initial metadata, which go out with
  // SendInitialMetadata(), or else with the first message of a stream or the
  // end of the call. Does nothing after that. If they are more than the client
  // takes (see metadata.h), the answer becomes RESOURCE_EXHAUSTED.
  void AddInitialMetadata(absl::string_view key, absl::string_view value) {
    initial_metadata_.emplace(absl::AsciiStrToLower(key), value);
  }
  // Sends the initial metadata now, even if there are none; the client may see
  // them while the handler goes on. Only the first call has an effect. Not
  // while another thread writes to the stream.
  void SendInitialMetadata();

  // Sends a pair along with the reply or the error. If the pairs are more than
  // the client takes, the reply becomes RESOURCE_EXHAUSTED.
  void AddTrailingMetadata(absl::string_view key, absl::string_view value) {
    trailing_metadata_.emplace(absl::AsciiStrToLower(key), value);
  }

  // Bytes that the client sent beside its request; empty if there are none.
  // Nobody else can change them. Valid until the handler returns.
  // TakeRequestAttachment() keeps them longer, to send them back or on without
  // a copy, say.
  absl::Span<const uint8_t> request_attachment() const {
    return request_attachment_.span();
  }
  Buffer TakeRequestAttachment() { return std::move(request_attachment_); }

  // Returns memory to fill and send back: the device's, or plain memory if the
  // device has none left now.
  Buffer AllocateBuffer(size_t bytes) const;

  // Sends bytes beside the response, if the handler returns OK. A Buffer of
  // AllocateBuffer() or TakeRequestAttachment() goes without a copy if it is
  // longer than a few KiB; leave its bytes alone from then on. Other bytes are
  // copied here and now.
  void set_response_attachment(Buffer attachment) {
    response_attachment_ = std::move(attachment);
  }
  void set_response_attachment(absl::Span<const uint8_t> attachment);

  // For the library: the deadline by base::Now().
  absl::Time due() const { return due_; }
  // Makes the context ready for another call.
  void Reset(absl::Time due) {
    due_ = due;
    if (!client_metadata_.empty()) client_metadata_.clear();
    if (!trailing_metadata_.empty()) trailing_metadata_.clear();
    if (!initial_metadata_.empty()) initial_metadata_.clear();
    sent_initial_metadata_ = false;
  }
  // Whether nothing but a message goes with a good answer.
  bool sends_no_metadata() const {
    return trailing_metadata_.empty() && initial_metadata_.empty() &&
           !sent_initial_metadata_;
  }
  // Whether there are initial metadata that were not sent yet. If so, marks
  // them as sent.
  bool TakeInitialMetadataDue() {
    return !initial_metadata_.empty() &&
           !std::exchange(sent_initial_metadata_, true);
  }
  // Whether initial metadata were not sent yet, even if there are none. Marks
  // them as sent.
  bool TakeInitialMetadata() {
    return !std::exchange(sent_initial_metadata_, true);
  }
  void set_request_attachment(Buffer attachment) {
    request_attachment_ = std::move(attachment);
  }
  Buffer TakeResponseAttachment() { return std::move(response_attachment_); }
  // Gives memory back that nobody took.
  void DropAttachments() {
    request_attachment_.Reset();
    response_attachment_.Reset();
  }
  Metadata* mutable_client_metadata() { return &client_metadata_; }
  const Metadata& initial_metadata() const { return initial_metadata_; }
  const Metadata& trailing_metadata() const { return trailing_metadata_; }

 private:
  internal::HandlerCall* const call_;        // The call behind the context.
  absl::Time due_ = absl::InfiniteFuture();  // By base::Now().
  Metadata client_metadata_;
  Metadata initial_metadata_;
  bool sent_initial_metadata_ = false;
  Metadata trailing_metadata_;
  Buffer request_attachment_;
  Buffer response_attachment_;
};

}  // namespace verbena

#endif  // VERBENA_RPC_SERVER_CONTEXT_H_
