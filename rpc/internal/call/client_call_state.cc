#include "rpc/internal/call/client_call_state.h"

#include <thread>
#include <utility>

#include "transport/base/clock.h"

namespace verbena::internal {

// Takes the context by a compare-and-swap, then clears the results of the call
// before. From kStarting on, no other call touches them.
bool ClientCallState::Reserve() {
  Stage expected = Stage::kNoCall;
  if (!stage_.compare_exchange_strong(expected, Stage::kStarting,
                                      std::memory_order_seq_cst)) {
    return false;
  }
  if (!results_.initial_metadata.empty()) results_.initial_metadata.clear();
  if (!results_.trailing_metadata.empty()) results_.trailing_metadata.clear();
  results_.has_peer = false;
  results_.response_attachment.Reset();
  if (options_.timeout < absl::InfiniteDuration() &&
      std::exchange(options_.timeout_used, true)) {
    // A timeout counts from the start of each call. For the first one `due` was
    // set with it.
    options_.due = base::Now() + options_.timeout;
  }
  return true;
}

void ClientCallState::Close() {
  Stage expected = Stage::kOpen;
  // Acquires what Cancel() has done on another thread, and releases the end to
  // later calls of TryCancel().
  while (!stage_.compare_exchange_weak(expected, Stage::kEnded,
                                       std::memory_order_acq_rel)) {
    // Somebody is in Cancel(), which takes a microsecond.
    expected = Stage::kOpen;
    std::this_thread::yield();
  }
}

// Sets the flag, then holds the stage at kCancelling while Cancel() runs, so
// that the call does not end in the middle of it.
void ClientCallState::TryCancel() {
  // A call that reserves the context later sees cancelled_: both are
  // sequentially consistent. A call that reserved it before shows in stage_.
  cancelled_.store(true, std::memory_order_seq_cst);
  Stage expected = Stage::kOpen;
  while (!stage_.compare_exchange_weak(expected, Stage::kCancelling,
                                       std::memory_order_seq_cst)) {
    if (expected == Stage::kNoCall || expected == Stage::kEnded) return;
    // If the call is about to open (kStarting), or another thread cancels it
    // (kCancelling), try again. A second Cancel() does no harm.
    if (expected != Stage::kOpen) std::this_thread::yield();
    expected = Stage::kOpen;
  }
  call_->Cancel();
  stage_.store(Stage::kOpen, std::memory_order_release);
}

void ClientCallState::CancelWith(std::stop_token token) {
  stop_callback_ = std::make_unique<std::stop_callback<std::function<void()>>>(
      std::move(token), [this] { TryCancel(); });
}

}  // namespace verbena::internal
