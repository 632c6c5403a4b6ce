// The client's side of one call: options before it, results after it.

#ifndef VERBENA_RPC_CLIENT_CONTEXT_H_
#define VERBENA_RPC_CLIENT_CONTEXT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rpc/buffer.h"
#include "rpc/internal/call/client_call_state.h"
#include "rpc/metadata.h"
#include "transport/base/clock.h"

namespace verbena {

class ServerContext;

// Selects the properties of a handler's call that the calls it makes inherit:
// the deadline and cancellation. By default both.
class PropagationOptions {
 public:
  PropagationOptions& enable_deadline_propagation() { return Deadline(true); }
  PropagationOptions& disable_deadline_propagation() { return Deadline(false); }
  PropagationOptions& enable_cancellation_propagation() { return Cancel(true); }
  PropagationOptions& disable_cancellation_propagation() {
    return Cancel(false);
  }
  bool deadline() const { return deadline_; }
  bool cancellation() const { return cancellation_; }

 private:
  PropagationOptions& Deadline(bool propagate) {
    deadline_ = propagate;
    return *this;
  }
  PropagationOptions& Cancel(bool propagate) {
    cancellation_ = propagate;
    return *this;
  }

  bool deadline_ = true;
  bool cancellation_ = true;
};

// Must outlive its call: until a blocking call returns, or the callback of an
// asynchronous one is entered. One call at a time; a second that starts
// meanwhile fails with FAILED_PRECONDITION. A later call may use the context
// again: it keeps what was set and forgets what was learned.
//
// TryCancel() may be called from any thread at any time; everything else by one
// thread at a time, and not while the call is open.
class ClientContext {
 public:
  ClientContext() = default;
  ClientContext(const ClientContext&) = delete;
  ClientContext& operator=(const ClientContext&) = delete;
  ~ClientContext() = default;

  // For calls that a handler makes for the call of `server_context`, which must
  // outlive this: they end no later than that, whatever is set here, and are
  // cancelled with it.
  static std::unique_ptr<ClientContext> FromServerContext(
      ServerContext& server_context,
      const PropagationOptions& options = PropagationOptions());

  // --- Before the call ---

  // The call ends with DEADLINE_EXCEEDED at `deadline`, wherever it stands. The
  // server learns how much time is left. Without one a call may take for ever.
  // A clock that is set after this was called changes nothing.
  void set_deadline(absl::Time deadline) {
    state_.options().due = base::FromWallClock(deadline);
    state_.options().timeout = absl::InfiniteDuration();
  }
  // Sets the deadline of the next call to `timeout` from now. A later call that
  // uses the context again gets `timeout` from its own start. set_timeout() and
  // set_deadline() replace each other: the last one called counts.
  void set_timeout(absl::Duration timeout) {
    state_.options().due = base::Now() + timeout;
    state_.options().timeout = timeout;
    state_.options().timeout_used = false;
  }
  // Returns the deadline by the wall clock as it stands now.
  absl::Time deadline() const {
    return base::ToWallClock(state_.options().deadline());
  }

  // Sends a pair along with the request. A call with more of them than the
  // server takes fails with RESOURCE_EXHAUSTED: see metadata.h.
  void AddMetadata(absl::string_view key, absl::string_view value);
  const Metadata& metadata() const { return state_.options().metadata; }

  // Whether the call waits for a connection, until its deadline, if an
  // attempt to connect fails. If false, such a call fails with UNAVAILABLE. If
  // this was never set, the service config decides, or else it is false.
  void set_wait_for_ready(bool wait) { state_.options().wait_for_ready = wait; }
  bool wait_for_ready() const {
    return state_.options().wait_for_ready.value_or(false);
  }

  // Sets the bytes of the reply and its attachment together, if known. A large
  // reply then needs one round trip less. 0: the channel goes by earlier
  // replies of the method.
  void set_reply_size_hint(uint64_t bytes) {
    state_.options().reply_size_hint = bytes;
  }
  uint64_t reply_size_hint() const { return state_.options().reply_size_hint; }

  // Sends bytes beside the request, which no CPU serialises or parses. The
  // context keeps the Buffer, and sends it again with later calls. It goes
  // without a copy if it came from this channel and is longer than a few KiB;
  // leave its bytes alone until the call has ended, and after a call that was
  // cancelled or timed out use another one: the server may still read this.
  void set_request_attachment(Buffer attachment) {
    state_.options().request_attachment = std::move(attachment);
    state_.options().request_attachment_bytes =
        state_.options().request_attachment.span();
  }
  // As set_request_attachment() above, but for any memory, which must stay as
  // it is until the call has ended. The bytes are copied once, into
  // registered memory.
  void set_request_attachment(absl::Span<const uint8_t> attachment) {
    state_.options().request_attachment.Reset();
    state_.options().request_attachment_bytes = attachment;
  }
  absl::Span<const uint8_t> request_attachment() const {
    return state_.options().request_attachment_bytes;
  }
  // Takes the Buffer back: later calls send none.
  Buffer TakeRequestAttachment() {
    state_.options().request_attachment_bytes = {};
    return std::move(state_.options().request_attachment);
  }

  // --- While it is open ---

  // Ends the call with CANCELLED unless it has ended already; it may still end
  // otherwise if its reply is under way. A call that starts later is cancelled
  // at once.
  void TryCancel() { state_.TryCancel(); }

  // --- After it ---

  // Metadata that the handler sent before its answer. For a stream they
  // are here earlier: once WaitForInitialMetadata() or the first Read()
  // has returned.
  const Metadata& GetServerInitialMetadata() const {
    return state_.results().initial_metadata;
  }

  // Metadata that the handler added to its reply or error.
  const Metadata& GetServerTrailingMetadata() const {
    return state_.results().trailing_metadata;
  }

  // Bytes that the handler sent beside its reply; empty if there are none. The
  // server may still write to them as long as its connection lives, unless the
  // channel has revoke_leases: if it is not trusted, copy what is to be checked
  // before it is used. Valid until the next call. Take them to keep them, or to
  // send them on.
  absl::Span<const uint8_t> response_attachment() const {
    return state_.results().response_attachment.span();
  }
  Buffer TakeResponseAttachment() {
    return std::move(state_.results().response_attachment);
  }

  // The server's address, "10.0.0.7:50051"; empty if the call reached none. Of
  // a stream, not before something has come from its server: until then it may
  // still go to another one.
  const std::string& peer() const;

 private:
  friend class internal::ClientCallState;

  internal::ClientCallState state_;
};

inline internal::ClientCallState& internal::ClientCallState::Of(
    ClientContext& context) {
  return context.state_;
}

}  // namespace verbena

#endif  // VERBENA_RPC_CLIENT_CONTEXT_H_
