#include "rpc/internal/server/slow_calls.h"

#include <algorithm>
#include <string>

#include "absl/time/time.h"

namespace verbena::internal {
namespace {

// The rate tells the other way round only.
uint64_t CyclesOf(uint64_t nanos, const base::CycleRate& rate) {
  constexpr uint64_t kCycles = uint64_t{1} << 32;
  const uint64_t nanos_of_those = rate.Nanos(kCycles);
  // If the clock stands still, no call is slow.
  if (nanos_of_those == 0) return UINT64_MAX;
  return nanos * kCycles / nanos_of_those;
}

}  // namespace

SlowCalls::SlowCalls(const base::CycleRate& rate)
    : rate_(rate), least_(CyclesOf(kLeastNanos, rate)), threshold_(least_) {}

// Takes a free entry, or that of the fastest call. The threshold then rises, so
// that IsSlow() lets fewer calls come here.
void SlowCalls::Add(absl::string_view method, absl::string_view peer,
                    absl::StatusCode code, uint64_t cycles, uint64_t now) {
  Call* call = nullptr;
  if (size_ < kMost) {
    call = &calls_[size_++];
  } else {
    call = std::min_element(calls_.begin(), calls_.end(),
                            [](const Call& one, const Call& other) {
                              return one.cycles < other.cycles;
                            });
  }
  call->method = method;
  call->peer = peer;
  call->code = code;
  call->cycles = cycles;
  call->ended = now;
  SetThreshold();
}

// Drops old calls, lowers the threshold if there is room again, and lists the
// rest.
void SlowCalls::AppendTo(uint64_t now, std::vector<SlowCallStatus>* list) {
  // The last entry fills the gap: the order has no meaning.
  for (size_t i = 0; i < size_;) {
    if (rate_.Nanos(now - calls_[i].ended) > kKeptNanos) {
      calls_[i] = calls_[--size_];
    } else {
      ++i;
    }
  }
  // Free entries let the threshold fall again.
  SetThreshold();
  for (size_t i = 0; i < size_; ++i) {
    const Call& call = calls_[i];
    const auto time = [this](uint64_t cycles) {
      return absl::Nanoseconds(static_cast<int64_t>(rate_.Nanos(cycles)));
    };
    list->push_back({std::string(call.method.view()),
                     std::string(call.peer.view()), call.code,
                     time(call.cycles), time(now - call.ended)});
  }
}

void SlowCalls::SetThreshold() {
  threshold_ = least_;
  if (size_ < kMost) return;
  uint64_t fastest = UINT64_MAX;
  for (const Call& call : calls_) fastest = std::min(fastest, call.cycles);
  threshold_ = fastest;
}

}  // namespace verbena::internal
