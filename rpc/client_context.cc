#include "rpc/client_context.h"

#include <thread>

namespace verbena {

void ClientContext::AddMetadata(absl::string_view key,
                                absl::string_view value) {
  metadata_.emplace(key, value);
}

bool ClientContext::Begin(internal::CancellableCall* call) {
  State expected = State::kNoCall;
  if (!state_.compare_exchange_strong(expected, State::kStarting)) return false;
  call_ = call;
  if (!trailing_metadata_.empty()) trailing_metadata_.clear();
  peer_.clear();
  response_attachment_.Reset();
  // Ordered before the caller's look at cancelled(), as TryCancel() sets
  // cancelled_ before it looks at state_: one of the two sees the other.
  state_.store(State::kOpen, std::memory_order_seq_cst);
  return true;
}

void ClientContext::End() {
  State expected = State::kOpen;
  while (!state_.compare_exchange_weak(expected, State::kNoCall,
                                       std::memory_order_acq_rel)) {
    // Somebody is in Cancel(), which takes a microsecond.
    expected = State::kOpen;
    std::this_thread::yield();
  }
}

void ClientContext::TryCancel() {
  cancelled_.store(true, std::memory_order_seq_cst);
  State expected = State::kOpen;
  if (!state_.compare_exchange_strong(expected, State::kCancelling)) return;
  call_->Cancel();
  state_.store(State::kOpen, std::memory_order_release);
}

}  // namespace verbena
