// Says when calls start, and counts those that end.

#ifndef VERBENA_TOOLS_LOAD_METER_H_
#define VERBENA_TOOLS_LOAD_METER_H_

#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tools/load/workload.h"

namespace verbena::bench {

using Clock = std::chrono::steady_clock;

// When the calls of a measurement are made.
struct Schedule {
  Schedule(const Case& measured, absl::Duration duration,
           Clock::time_point begin = Clock::now());

  // The warm-up ends after `warm_at_least`, when `warm_up_calls` have ended and
  // so have touched all memory, but at `warm_at_most` in any case.
  Clock::time_point warm_at_least;
  Clock::time_point warm_at_most;
  uint64_t warm_up_calls;

  Clock::duration length;      // How long calls count.
  Clock::duration interval{};  // Between starts in an open loop; else zero.
  uint64_t iterations;         // UINT64_MAX: as many as there is time for.
  absl::Time deadline;  // By base::Now(): when every call has to have ended.
};

// The calls of one thread of one measurement.
//
// In a closed loop a call is due as soon as there is room for it. In an open
// loop calls are due by the clock, and the latency of a call counts from the
// time when it was due. So if the server stalls, the percentiles include the
// time that later calls waited for it.
class Meter {
 public:
  // The first call is due at `first_due`. If the warm-up does not wait for
  // calls, it ends by the clock.
  explicit Meter(const Schedule& schedule,
                 Clock::time_point first_due = Clock::now())
      : schedule_(schedule),
        next_due_(first_due),
        begin_(schedule.warm_up_calls > 0 ? Clock::time_point::max()
                                          : schedule.warm_at_least),
        end_(schedule.warm_at_most + schedule.length),
        warm_(schedule.warm_up_calls == 0) {}

  // Whether another call is to start, if there is room for it.
  bool Due(Clock::time_point now) const {
    return !Over(now) &&
           (schedule_.interval == Clock::duration::zero() || next_due_ <= now);
  }

  // Whether no call will ever start again.
  bool Over(Clock::time_point now) const {
    return now >= end_ || counted_starts_ >= schedule_.iterations;
  }

  // Starts a call; returns when it was due, for End(). REQUIRES: Due(now).
  Clock::time_point Start(Clock::time_point now) {
    Clock::time_point due = now;
    if (schedule_.interval > Clock::duration::zero()) {
      due = next_due_;
      next_due_ += schedule_.interval;
    }
    if (warm_) {
      if (due >= begin_) ++counted_starts_;
    } else {
      starts_at_once_ = due == last_start_ ? starts_at_once_ + 1 : 1;
      last_start_ = due;
    }
    return due;
  }

  // In an open loop: leaves out all but the last of the calls that were due
  // before `now`, when the call that was begun at `begun` ended. The one that
  // is not left out is late.
  void LeaveOutMissed(Clock::time_point begun, Clock::time_point now) {
    if (schedule_.interval == Clock::duration::zero() || next_due_ >= now) {
      return;
    }
    if (begun >= begin_) ++sample_.late;
    next_due_ += (now - next_due_) / schedule_.interval * schedule_.interval;
  }

  // When the next call of an open loop is due.
  Clock::time_point next_due() const { return next_due_; }

  // A call that was due at `due` has ended. It counts if it was due after the
  // warm-up.
  void End(Clock::time_point due, Clock::time_point now,
           const absl::Status& status) {
    ++sample_.ended;
    const bool counts = warm_ && due >= begin_;
    if (!warm_) WarmUp(now);
    if (!status.ok()) return Fail(status);
    if (!counts) return;
    sample_.latencies.Record((now - due) / std::chrono::nanoseconds(1));
    last_end_ = now;
  }

  // Counts an error of the call that has just ended, or of no call.
  void Fail(const absl::Status& status) {
    if (sample_.errors++ == 0) sample_.first_error = status;
  }

  // Returns the results. Call it once, when all calls have ended.
  Sample Finish();

 private:
  // Ends the warm-up if it is time.
  void WarmUp(Clock::time_point now);

  const Schedule& schedule_;
  Clock::time_point next_due_;   // The next call's time, in an open loop.
  Clock::time_point begin_;      // The end of the warm-up; until then max().
  Clock::time_point end_;        // From here on no call starts.
  Clock::time_point last_end_;   // The end of the last call that counted.
  uint64_t counted_starts_ = 0;  // Calls started since the warm-up.
  // While warming up: the last start, and how many there were at that time.
  Clock::time_point last_start_;
  uint64_t starts_at_once_ = 0;
  bool warm_;
  Sample sample_;
};

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_LOAD_METER_H_
