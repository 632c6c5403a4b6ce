// The client's side of one call: options before it, results after it.

#ifndef VERBENA_RPC_CLIENT_CONTEXT_H_
#define VERBENA_RPC_CLIENT_CONTEXT_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rpc/buffer.h"
#include "rpc/metadata.h"
#include "transport/base/clock.h"

namespace verbena {

class ServerContext;

namespace internal {

// The open call of a context, which TryCancel() cancels.
class CancellableCall {
 public:
  // From any thread, any number of times, until ClientContext::Close() was
  // entered. Must not block and must not call the context.
  virtual void Cancel() = 0;

 protected:
  ~CancellableCall() = default;
};

}  // namespace internal

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
    due_ = base::FromWallClock(deadline);
    timeout_ = absl::InfiniteDuration();
  }
  // Sets the deadline of the next call to `timeout` from now. A later call that
  // uses the context again gets `timeout` from its own start. set_timeout() and
  // set_deadline() replace each other: the last one called counts.
  void set_timeout(absl::Duration timeout) {
    due_ = base::Now() + timeout;
    timeout_ = timeout;
    timeout_used_ = false;
  }
  // Returns the deadline by the wall clock as it stands now.
  absl::Time deadline() const { return base::ToWallClock(due()); }

  // Sends a pair along with the request. A call with more of them than the
  // server takes fails with RESOURCE_EXHAUSTED: see metadata.h.
  void AddMetadata(absl::string_view key, absl::string_view value);
  const Metadata& metadata() const { return metadata_; }

  // Whether the call waits for a connection, until its deadline, if an
  // attempt to connect fails. If false (the default), such a call fails
  // with UNAVAILABLE.
  void set_wait_for_ready(bool wait) { wait_for_ready_ = wait; }
  bool wait_for_ready() const { return wait_for_ready_; }

  // Sets the bytes of the reply and its attachment together, if known. A large
  // reply then needs one round trip less. 0: the channel goes by earlier
  // replies of the method.
  void set_reply_size_hint(uint64_t bytes) { reply_size_hint_ = bytes; }
  uint64_t reply_size_hint() const { return reply_size_hint_; }

  // Sends bytes beside the request, which no CPU serialises or parses. The
  // context keeps the Buffer, and sends it again with later calls. It goes
  // without a copy if it came from this channel and is longer than a few KiB;
  // leave its bytes alone until the call has ended, and after a call that was
  // cancelled or timed out use another one: the server may still read this.
  void set_request_attachment(Buffer attachment) {
    request_attachment_ = std::move(attachment);
    request_attachment_bytes_ = request_attachment_.span();
  }
  // As set_request_attachment() above, but for any memory, which must stay as
  // it is until the call has ended. The bytes are copied once, into
  // registered memory.
  void set_request_attachment(absl::Span<const uint8_t> attachment) {
    request_attachment_.Reset();
    request_attachment_bytes_ = attachment;
  }
  // Takes the Buffer back: later calls send none.
  Buffer TakeRequestAttachment() {
    request_attachment_bytes_ = {};
    return std::move(request_attachment_);
  }

  // --- While it is open ---

  // Ends the call with CANCELLED unless it has ended already; it may still end
  // otherwise if its reply is under way. A call that starts later is cancelled
  // at once.
  void TryCancel();

  // --- After it ---

  // Metadata that the handler sent before its answer. For a stream they
  // are here earlier: once WaitForInitialMetadata() or the first Read()
  // has returned.
  const Metadata& GetServerInitialMetadata() const { return initial_metadata_; }

  // Metadata that the handler added to its reply or error.
  const Metadata& GetServerTrailingMetadata() const {
    return trailing_metadata_;
  }

  // Bytes that the handler sent beside its reply; empty if there are none. The
  // server may still write to them as long as its connection lives, unless the
  // channel has revoke_leases: if it is not trusted, copy what is to be checked
  // before it is used. Valid until the next call. Take them to keep them, or to
  // send them on.
  absl::Span<const uint8_t> response_attachment() const {
    return response_attachment_.span();
  }
  Buffer TakeResponseAttachment() { return std::move(response_attachment_); }

  // The server's address, "10.0.0.7:50051"; empty if the call reached none.
  const std::string& peer() const;

  // --- For the library ---

  // The deadline by base::Now().
  absl::Time due() const { return std::min(due_, latest_due_); }

  // A call goes through Reserve(), Open(), Close() and Release(), in this
  // order; one that fails before it opens, through CloseUnopened() instead of
  // the two in the middle.

  // Takes the context into use for a call. Returns false if another has it.
  bool Reserve();
  // From now on TryCancel() cancels `call`. Look at cancelled() afterwards.
  void Open(internal::CancellableCall* call) {
    call_ = call;
    state_.store(State::kOpen, std::memory_order_release);
  }
  // The call is over: when this returns, nobody is in Cancel().
  void Close();
  void CloseUnopened() {
    state_.store(State::kEnded, std::memory_order_release);
  }
  // The context is free for another call.
  void Release() { state_.store(State::kNoCall, std::memory_order_release); }

  // Memory in which the library keeps an asynchronous call, so that none has to
  // be allocated. Only the call that has reserved the context may use it.
  static constexpr size_t kCallStorageBytes = 512;
  void* call_storage() { return call_storage_; }

  // Between Reserve() and Open(): the user's code runs, for as long as it
  // takes, and TryCancel() does not wait for Open(). Resume() ends that, unless
  // CloseUnopened() does.
  void Pause() { CloseUnopened(); }
  void Resume() {
    // A thread in TryCancel() has seen this, or else has set cancelled().
    state_.store(State::kStarting, std::memory_order_seq_cst);
  }

  bool cancelled() const { return cancelled_.load(std::memory_order_seq_cst); }
  Metadata* mutable_metadata() { return &metadata_; }
  Metadata* mutable_initial_metadata() { return &initial_metadata_; }
  Metadata* mutable_trailing_metadata() { return &trailing_metadata_; }
  // Memory for metadata that go in frames of their own.
  std::string* mutable_long_metadata() { return &long_metadata_; }
  void set_peer(const std::string& peer) {
    // Most often it is the same as that of the call before.
    if (peer_ != peer) peer_ = peer;
    has_peer_ = true;
  }
  absl::Span<const uint8_t> request_attachment() const {
    return request_attachment_bytes_;
  }
  // Null if the attachment is not in a Buffer.
  const Buffer* request_attachment_buffer() const {
    return request_attachment_.empty() ? nullptr : &request_attachment_;
  }
  Buffer* mutable_response_attachment() { return &response_attachment_; }

 private:
  enum class State : uint8_t {
    kNoCall,
    kStarting,    // call_ is being set, within a microsecond.
    kOpen,        // TryCancel() may use call_.
    kCancelling,  // TryCancel() does use it; Close() waits for that.
    kEnded,       // The call is over, but the context is not free yet.
  };

  absl::Time due_ = absl::InfiniteFuture();         // By base::Now().
  absl::Time latest_due_ = absl::InfiniteFuture();  // Whatever due_ is.
  absl::Duration timeout_ = absl::InfiniteDuration();
  bool timeout_used_ = false;  // A call has begun since that was set.
  uint64_t reply_size_hint_ = 0;
  bool wait_for_ready_ = false;

  std::atomic<bool> cancelled_{false};
  std::atomic<State> state_{State::kNoCall};
  internal::CancellableCall* call_ = nullptr;  // Valid from kOpen on.

  Buffer request_attachment_;
  absl::Span<const uint8_t> request_attachment_bytes_;
  Buffer response_attachment_;

  Metadata metadata_;
  // The call's metadata_ as bytes, while they travel in frames of their own.
  std::string long_metadata_;
  Metadata initial_metadata_;
  Metadata trailing_metadata_;
  // The server's address in this call or, unless has_peer_, in an earlier one.
  std::string peer_;
  bool has_peer_ = false;

  // Cancels this context's call when the handler's call is cancelled. A
  // pointer, because most contexts have none.
  std::unique_ptr<std::stop_callback<std::function<void()>>> stop_callback_;

  alignas(std::max_align_t) std::byte call_storage_[kCallStorageBytes];
};

}  // namespace verbena

#endif  // VERBENA_RPC_CLIENT_CONTEXT_H_
