// The state of a polled queue pair that the engine has to know.

#ifndef VERBENA_TRANSPORT_SOFT_CONNECTED_ENGINE_NOTES_H_
#define VERBENA_TRANSPORT_SOFT_CONNECTED_ENGINE_NOTES_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "transport/soft/base/clock.h"
#include "transport/soft/connected/packet_exchange.h"

namespace verbena::soft {

// Notes that are written after each pass of the protocol and read at each look
// of the engine, so that it need not take the lock of a queue pair that is
// being polled. They are relaxed, because no other memory is read on the
// strength of them. A stale note only delays the engine until its next look.
class EngineNotes {
 public:
  using TimePoint = Clock::TimePoint;

  // The result of LookNow().
  struct Look {
    // Nothing waits for the peer, or the peer has answered something since the
    // last look, and there is no deadline to watch.
    bool alive;
    bool nothing_unfinished;
  };

  // The time between two looks at a queue pair that somebody polls. If nobody
  // polls it any more, what the peer sends waits for the next look.
  static constexpr std::chrono::milliseconds kLookInterval{1};
  // The time between two looks once every look of kSteady has found that a user
  // spins. A look wakes the engine's thread, most often beside the thread that
  // polls.
  static constexpr std::chrono::milliseconds kSteadyLookInterval{20};
  static constexpr std::chrono::milliseconds kSteady{20};

  explicit EngineNotes(TimePoint now)
      : silent_since_(now), steady_since_(now) {}

  // REQUIRES: the queue pair's lock is held. `deadline` is whether a time has
  // been set at which something must happen.
  void Update(const PacketExchange& exchange, bool deadline) {
    const Requester& requester = exchange.requester();
    uint64_t ended = requester.ended();
    if (deadline || requester.resume_at() != TimePoint::max()) {
      ended = kDeadlineSet;
    } else if (!requester.has_unfinished()) {
      ended = kNothingUnfinished;
    }
    requests_ended_.store(ended, std::memory_order_relaxed);
    activity_.store(exchange.link().position(), std::memory_order_relaxed);
  }

  // The rest is for the engine's thread alone.

  Look LookNow() {
    const uint64_t ended = requests_ended_.load(std::memory_order_relaxed);
    const bool nothing_unfinished = ended == kNothingUnfinished;
    const bool alive = nothing_unfinished ||
                       (ended != kDeadlineSet && ended != requests_ended_seen_);
    requests_ended_seen_ = ended;
    return {alive, nothing_unfinished};
  }

  // For how long no packet has gone either way, and `idle` has been true.
  std::chrono::nanoseconds SilentFor(TimePoint now, bool idle) {
    const uint32_t activity = activity_.load(std::memory_order_relaxed);
    if (!idle || activity != activity_seen_) {
      activity_seen_ = activity;
      silent_since_ = now;
    }
    return now - silent_since_;
  }

  // When to look again at a queue pair that was polled. NoteUnsteady() when no
  // user has spun since the last look.
  TimePoint NextLook(TimePoint now) const {
    return now + (now - steady_since_ < kSteady ? kLookInterval
                                                : kSteadyLookInterval);
  }
  void NoteUnsteady(TimePoint now) { steady_since_ = now; }

 private:
  static constexpr uint64_t kNothingUnfinished = ~uint64_t{0};
  static constexpr uint64_t kDeadlineSet = kNothingUnfinished - 1;

  // How many requests have ended, or one of the two values above.
  std::atomic<uint64_t> requests_ended_{kNothingUnfinished};
  std::atomic<uint32_t> activity_{0};  // Changes with every packet.

  // The values that the engine's thread saw when it last looked.
  uint64_t requests_ended_seen_ = kNothingUnfinished;
  uint32_t activity_seen_ = 0;
  TimePoint silent_since_;
  TimePoint steady_since_;  // Every look since then has found a user spin.
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CONNECTED_ENGINE_NOTES_H_
