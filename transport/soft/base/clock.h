// The clock of the device, and those of completion timestamps.

#ifndef VERBENA_TRANSPORT_SOFT_BASE_CLOCK_H_
#define VERBENA_TRANSPORT_SOFT_BASE_CLOCK_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>

#include "transport/base/check.h"

namespace verbena::soft {

// The machine's steady clock, or one that stands still until it is moved: then
// timeouts of seconds take no time, and are the same in every run. Thread-safe.
class Clock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  enum class Kind { kSteady, kManual };

  explicit Clock(Kind kind) : kind_(kind) {}
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;

  bool manual() const { return kind_ == Kind::kManual; }

  TimePoint Now() const {
    return manual() ? manual_now_.load(std::memory_order_relaxed)
                    : std::chrono::steady_clock::now();
  }

  // Never moves back: does nothing when it is later. REQUIRES: manual().
  void MoveTo(TimePoint time) {
    CHECK(manual());
    if (time > Now()) manual_now_.store(time, std::memory_order_relaxed);
  }

 private:
  const Kind kind_;
  // The first value is an hour, so that subtracting any duration that is used
  // here does not give a time before zero.
  std::atomic<TimePoint> manual_now_{TimePoint(std::chrono::hours(1))};
};

inline uint64_t ReadHostClock(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<uint64_t>(now.tv_nsec);
}

// The clock of completion timestamps: nanoseconds, never set back.
inline uint64_t ClockNow() { return ReadHostClock(CLOCK_MONOTONIC); }
// Nanoseconds since 1970, as the host counts them.
inline uint64_t WallclockNow() { return ReadHostClock(CLOCK_REALTIME); }

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_BASE_CLOCK_H_
