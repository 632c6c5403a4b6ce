// A call of a client, as its ClientContext sees it.

#ifndef VERBENA_RPC_INTERNAL_CALL_CLIENT_CALL_STATE_H_
#define VERBENA_RPC_INTERNAL_CALL_CLIENT_CALL_STATE_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rpc/buffer.h"
#include "rpc/metadata.h"

namespace verbena {

class ClientContext;

namespace internal {

// The open call of a context, which TryCancel() cancels.
class CancellableCall {
 public:
  // From any thread, any number of times, until ClientCallState::Close() was
  // entered. Must not block and must not call the context.
  virtual void Cancel() = 0;

 protected:
  ~CancellableCall() = default;
};

// The user sets these for a call and later ones.
struct ClientCallOptions {
  absl::Time due = absl::InfiniteFuture();         // By base::Now().
  absl::Time latest_due = absl::InfiniteFuture();  // Whatever `due` is.
  absl::Duration timeout = absl::InfiniteDuration();
  bool timeout_used = false;           // A call has begun since that was set.
  std::optional<bool> wait_for_ready;  // The service config says it otherwise.
  uint64_t reply_size_hint = 0;
  Metadata metadata;
  Buffer request_attachment;  // Empty if the bytes are not in a Buffer.
  absl::Span<const uint8_t> request_attachment_bytes;

  // The deadline by base::Now().
  absl::Time deadline() const { return std::min(due, latest_due); }
};

// A call learns these.
struct ClientCallResults {
  Metadata initial_metadata;
  Metadata trailing_metadata;
  Buffer response_attachment;
  // The server's address in this call or, unless has_peer, in an earlier one.
  std::string peer;
  bool has_peer = false;

  void set_peer(const std::string& new_peer) {
    // Most often it is the same as that of the call before.
    if (peer != new_peer) peer = new_peer;
    has_peer = true;
  }
};

// A call goes through Reserve(), Open(), Close() and Release(), in this order;
// one that fails before it opens, through CloseUnopened() instead of the two in
// the middle. TryCancel() from any thread at any time; the rest by the call.
class ClientCallState {
 public:
  ClientCallState() = default;
  ClientCallState(const ClientCallState&) = delete;
  ClientCallState& operator=(const ClientCallState&) = delete;

  // REQUIRES: rpc/client_context.h is included.
  static ClientCallState& Of(ClientContext& context);

  ClientCallOptions& options() { return options_; }
  const ClientCallOptions& options() const { return options_; }
  ClientCallResults& results() { return results_; }
  const ClientCallResults& results() const { return results_; }

  // Takes the context into use for a call. Returns false if another has it.
  bool Reserve();
  // From now on TryCancel() cancels `call`. Look at cancelled() afterwards.
  void Open(CancellableCall* call) {
    call_ = call;
    stage_.store(Stage::kOpen, std::memory_order_release);
  }
  // The call is over: when this returns, nobody is in Cancel().
  void Close();
  void CloseUnopened() {
    stage_.store(Stage::kEnded, std::memory_order_release);
  }
  // The context is free for another call.
  void Release() { stage_.store(Stage::kNoCall, std::memory_order_release); }

  // Between Reserve() and Open(): the user's code runs, for as long as it
  // takes, and TryCancel() does not wait for Open(). Resume() ends that, unless
  // CloseUnopened() does.
  void Pause() { CloseUnopened(); }
  void Resume() {
    // A thread in TryCancel() has seen this, or else has set cancelled().
    stage_.store(Stage::kStarting, std::memory_order_seq_cst);
  }

  // See ClientContext.
  void TryCancel();
  bool cancelled() const { return cancelled_.load(std::memory_order_seq_cst); }
  // Has TryCancel() called when a stop of `token` is requested.
  void CancelWith(std::stop_token token);

  // Memory for an asynchronous call, so that none has to be allocated, and for
  // metadata that go in frames of their own. Only the call that has reserved
  // the context may use them.
  static constexpr size_t kStorageBytes = 512;
  void* storage() { return storage_; }
  std::string* long_metadata() { return &long_metadata_; }

 private:
  enum class Stage : uint8_t {
    kNoCall,
    kStarting,    // call_ is being set, within a microsecond.
    kOpen,        // TryCancel() may use call_.
    kCancelling,  // TryCancel() does use it; Close() waits for that.
    kEnded,       // The call is over, but the context is not free yet.
  };

  std::atomic<bool> cancelled_{false};
  std::atomic<Stage> stage_{Stage::kNoCall};
  CancellableCall* call_ = nullptr;  // Valid from kOpen on.
  ClientCallOptions options_;
  ClientCallResults results_;
  std::string long_metadata_;
  // Null unless a handler's call is to cancel this one; most have no such.
  std::unique_ptr<std::stop_callback<std::function<void()>>> stop_callback_;

  alignas(std::max_align_t) std::byte storage_[kStorageBytes];
};

}  // namespace internal

}  // namespace verbena

#endif  // VERBENA_RPC_INTERNAL_CALL_CLIENT_CALL_STATE_H_
