#include "rpc/client_context.h"

#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/time/time.h"
#include "transport/base/clock.h"

namespace verbena {

void ClientContext::AddMetadata(absl::string_view key,
                                absl::string_view value) {
  metadata_.emplace(absl::AsciiStrToLower(key), value);
}

bool ClientContext::Reserve() {
  State expected = State::kNoCall;
  if (!state_.compare_exchange_strong(expected, State::kStarting,
                                      std::memory_order_seq_cst)) {
    return false;
  }
  if (!initial_metadata_.empty()) initial_metadata_.clear();
  if (!trailing_metadata_.empty()) trailing_metadata_.clear();
  has_peer_ = false;
  response_attachment_.Reset();
  if (timeout_ < absl::InfiniteDuration() &&
      std::exchange(timeout_used_, true)) {
    due_ = base::Now() + timeout_;
  }
  return true;
}

const std::string& ClientContext::peer() const {
  static const std::string* const none = new std::string;
  return has_peer_ ? peer_ : *none;
}

void ClientContext::Close() {
  State expected = State::kOpen;
  while (!state_.compare_exchange_weak(expected, State::kEnded,
                                       std::memory_order_acq_rel)) {
    // Somebody is in Cancel(), which takes a microsecond.
    expected = State::kOpen;
    std::this_thread::yield();
  }
}

void ClientContext::TryCancel() {
  // A call that reserves the context later sees cancelled_: both are
  // sequentially consistent. A call that reserved it before shows in state_.
  cancelled_.store(true, std::memory_order_seq_cst);
  State expected = State::kOpen;
  while (!state_.compare_exchange_weak(expected, State::kCancelling,
                                       std::memory_order_seq_cst)) {
    if (expected == State::kNoCall || expected == State::kEnded) return;
    // If the call is about to open (kStarting), or another thread cancels it
    // (kCancelling), try again. A second Cancel() does no harm.
    if (expected != State::kOpen) std::this_thread::yield();
    expected = State::kOpen;
  }
  call_->Cancel();
  state_.store(State::kOpen, std::memory_order_release);
}

}  // namespace verbena
