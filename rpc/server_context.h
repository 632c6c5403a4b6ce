// What a handler may ask of the call that it answers.

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
// may be called from any thread in that time, everything else by one at a time.
class ServerContext {
 public:
  // For the library.
  explicit ServerContext(internal::HandlerCall* call) : call_(call) {}
  ServerContext(const ServerContext&) = delete;
  ServerContext& operator=(const ServerContext&) = delete;

  // When the client gives the call up, on this host's clock, as that stands
  // now; InfiniteFuture() if it set no deadline.
  absl::Time deadline() const { return base::ToWallClock(due_); }

  // Whether nobody waits for the reply any more: the client cancelled, its
  // deadline passed, the connection is lost, a message of the stream could not
  // be read or written, or the server shuts down and ran out of patience. A
  // handler that takes long should look now and then, and return. Once told
  // that the deadline has passed, it can't succeed: whatever it returns, the
  // call ends with DEADLINE_EXCEEDED.
  bool IsCancelled() const;

  // Is told when the client cancels, its deadline passes at its side, or it is
  // gone. What a std::stop_callback of it does runs on the thread that polls
  // the network, and must take microseconds.
  std::stop_token stop_token();

  // For a unary method of a CallbackService that needs no reactor of its own:
  // has nothing but Finish(). Once a call; its owner is the library.
  ServerUnaryReactor* DefaultReactor();

  // The method that is called, "package.Service/Method".
  const std::string& method() const;

  // The client's address, "10.0.0.9:41234".
  const std::string& peer() const;

  // Who the client is, as far as the port's credentials and the processor of
  // metadata have found out; never null. Empty, and not authenticated, for a
  // port without credentials.
  std::shared_ptr<const transport::AuthContext> auth_context() const;

  // The device that carries the call: "soft", "rxe0".
  const std::string& device() const;

  // What the client added to its context.
  const Metadata& client_metadata() const { return client_metadata_; }

  // Sends a pair ahead of the answer, with SendInitialMetadata() or else with
  // the first message of a stream or the end of the call; afterwards it does
  // nothing. More than the client takes (see metadata.h) turn the answer into
  // RESOURCE_EXHAUSTED.
  void AddInitialMetadata(absl::string_view key, absl::string_view value) {
    initial_metadata_.emplace(absl::AsciiStrToLower(key), value);
  }
  // Sends them now; the client may see them while the handler goes on. Also if
  // there are none, once. Not while another thread writes to the stream.
  void SendInitialMetadata();

  // Sends a pair along with the reply or the error. More than the client takes
  // turn the reply into RESOURCE_EXHAUSTED.
  void AddTrailingMetadata(absl::string_view key, absl::string_view value) {
    trailing_metadata_.emplace(absl::AsciiStrToLower(key), value);
  }

  // Bytes that the client sent beside its request; empty if there are none.
  // Nobody else can change them. Valid until the handler returns; take them to
  // keep them longer, or to send them back or on without a copy.
  absl::Span<const uint8_t> request_attachment() const {
    return request_attachment_.span();
  }
  Buffer TakeRequestAttachment() { return std::move(request_attachment_); }

  // Memory to fill and send back: the device's, or plain memory if there is
  // none of that just now.
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
  // Whether there are initial ones that are to be sent, now: once.
  bool TakeInitialMetadataDue() {
    return !initial_metadata_.empty() &&
           !std::exchange(sent_initial_metadata_, true);
  }
  // Whether they are to be sent even if there are none: once.
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
