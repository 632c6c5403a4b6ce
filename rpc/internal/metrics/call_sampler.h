// Chooses the calls of a channel that are timed.

#ifndef VERBENA_RPC_INTERNAL_METRICS_CALL_SAMPLER_H_
#define VERBENA_RPC_INTERNAL_METRICS_CALL_SAMPLER_H_

#include <atomic>
#include <cstdint>

#include "transport/base/counter.h"

namespace verbena::internal {

// Times all calls while few are open. If many are open, one in eight is enough:
// to read the TSC twice for each would take a twentieth of a call's time.
class CallSampler {
 public:
  CallSampler() = default;
  CallSampler(const CallSampler&) = delete;
  CallSampler& operator=(const CallSampler&) = delete;

  // Called when a call has started, and when one has ended. One thread at
  // a time.
  void NoteStart() { open_.Add(); }
  void NoteEnd() { open_.Subtract(); }

  // Whether the call that now begins is timed. Any thread. If several ask at
  // once they may get the same answer, which does no harm.
  bool IsNextTimed() {
    if (open_.value() < kManyOpen) return true;
    const uint32_t turn = turn_.load(std::memory_order_relaxed);
    turn_.store(turn + 1, std::memory_order_relaxed);
    return turn % kCallsPerTimed == 0;
  }

 private:
  static constexpr uint64_t kManyOpen = 8;
  static constexpr uint32_t kCallsPerTimed = 8;

  base::Counter open_;
  std::atomic<uint32_t> turn_{0};
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_METRICS_CALL_SAMPLER_H_
