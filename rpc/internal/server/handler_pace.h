// Whether the handlers of a method are short enough to hold a poller up.

#ifndef VERBENA_RPC_INTERNAL_SERVER_HANDLER_PACE_H_
#define VERBENA_RPC_INTERNAL_SERVER_HANDLER_PACE_H_

#include <atomic>
#include <cstdint>

#include "absl/base/optimization.h"
#include "transport/base/cycle_counter.h"
#include "transport/polling/poller_threads.h"

namespace verbena::internal {

// Learns whether the handlers of one method are *short*, from how long they
// took. A method is short after some quick calls in a row. It ceases to be
// short if a handler is found asleep, or if two slow calls come close together:
// a single slow one may have lost its processor, which is no fault of the
// handler. Then the method must prove itself again, by more calls each time,
// unless the time before was long ago.
//
// Times are in TSC cycles. Any thread; if two count at the same time, one of
// them may be lost.
class HandlerPace final : public transport::ShortTask::Observer {
 public:
  // A quick call takes no longer: some twenty microseconds, which is what a
  // hand-over to a worker and back costs when both must be woken.
  static constexpr uint64_t kQuickCycles = 1 << 16;

  // Quick calls in a row that prove a method to be short: of a new one, and the
  // most that are ever asked for.
  static constexpr int kFirstProof = 16;
  static constexpr int kLongestProof = 1 << 16;
  // The factor by which the proof grows each time.
  static constexpr int kProofGrowth = 4;
  // A slow call of a short method is forgotten after this many quick ones.
  static constexpr int kForgiven = 64;
  // A method that ceases to be short so long after the time before does so as
  // if for the first time: some ten seconds.
  static constexpr uint64_t kLongCycles = uint64_t{1} << 35;

  bool is_short() const {
    return to_prove_.load(std::memory_order_relaxed) == 0;
  }

  // A handler took `cycles`, until `now`. Writes nothing for a quick call of a
  // short method that has no slow call to forget: any number of threads may
  // share this.
  void NoteTime(uint64_t cycles, uint64_t now) {
    if (ABSL_PREDICT_FALSE(cycles > kQuickCycles)) return NoteSlow(now);
    std::atomic<int>& count = is_short() ? suspicion_ : to_prove_;
    if (ABSL_PREDICT_FALSE(count.load(std::memory_order_relaxed) > 0)) {
      CountDown(count);
    }
  }

  // A handler was found asleep.
  void NoteBlocked(uint64_t now) {
    if (is_short()) Lose(now);
  }
  void OnBlocked() override { NoteBlocked(base::CycleNow()); }

 private:
  void NoteSlow(uint64_t now);
  void Lose(uint64_t now);
  // Never below 0, whatever other threads do.
  static void CountDown(std::atomic<int>& count);

  std::atomic<int> to_prove_{kFirstProof};  // Quick calls that are missing.
  std::atomic<int> proof_{kFirstProof};     // Quick calls of a whole proof.
  std::atomic<int> suspicion_{0};  // Quick calls until a slow one is forgotten.
  std::atomic<uint64_t> lost_at_{0};  // When it last ceased to be short, or 0.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVER_HANDLER_PACE_H_
