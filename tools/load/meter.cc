#include "tools/load/meter.h"

#include <algorithm>
#include <utility>

#include "transport/base/clock.h"

namespace verbena::bench {
namespace {

// How long after its end a measurement may still wait for its last call. The
// time is long for the sake of the largest payloads on a busy machine. A dead
// server is noticed sooner.
constexpr absl::Duration kGrace = absl::Minutes(1);

// How long the calls of Case::iterations may take.
constexpr absl::Duration kIterationsPatience = absl::Hours(1);

// How long touching all memory may take.
constexpr absl::Duration kWarmUpPatience = absl::Seconds(2);

// Calls that end in the warm-up, for each call that may be outstanding. They
// touch all memory, although pools reuse the same memory as long as they can.
constexpr uint64_t kWarmUpCalls = 4;

}  // namespace

// A warm-up of fixed length ends by the clock. Any other one also waits for
// enough calls, but at most for kWarmUpPatience.
Schedule::Schedule(const Case& measured, absl::Duration duration,
                   Clock::time_point begin) {
  const bool counts = measured.iterations > 0;
  const bool fixed = measured.warm_up.has_value();
  const absl::Duration warm_up = measured.warm_up.value_or(
      std::clamp(duration / 5, absl::Milliseconds(5), absl::Seconds(1)));
  const absl::Duration patience =
      fixed ? absl::ZeroDuration() : kWarmUpPatience;
  const absl::Duration counted = counts ? kIterationsPatience : duration;
  warm_at_least = begin + absl::ToChronoNanoseconds(warm_up);
  warm_at_most = warm_at_least + absl::ToChronoNanoseconds(patience);
  warm_up_calls = fixed ? 0 : kWarmUpCalls * measured.outstanding;
  length = absl::ToChronoNanoseconds(counted);
  if (measured.rate_per_s > 0) {
    // At least 1 ns, because an interval of zero means a closed loop.
    interval = std::max<Clock::duration>(
        std::chrono::nanoseconds(1),
        absl::ToChronoNanoseconds(absl::Seconds(1) / measured.rate_per_s));
  }
  iterations = counts ? measured.iterations : UINT64_MAX;
  deadline = base::Now() + warm_up + patience + counted + kGrace;
}

void Meter::WarmUp(Clock::time_point now) {
  const bool warm = now >= schedule_.warm_at_least &&
                    sample_.ended >= schedule_.warm_up_calls;
  if (!warm && now < schedule_.warm_at_most) return;
  warm_ = true;
  // A call that has started at this very time counts, like all that start
  // later. If one call takes very long, no other call may start in time, and
  // without this rule no call would count.
  begin_ = now;
  if (last_start_ == now) counted_starts_ = starts_at_once_;
  end_ = begin_ + schedule_.length;
}

// The rate counts up to the end of the last call that counted.
Sample Meter::Finish() {
  const uint64_t calls = sample_.latencies.count();
  const double seconds =
      std::chrono::duration<double>(last_end_ - begin_).count();
  if (calls > 0 && seconds > 0) sample_.calls_per_s = calls / seconds;
  if (schedule_.interval > Clock::duration::zero() &&
      counted_starts_ < schedule_.iterations) {
    const Clock::time_point until = std::min(end_, Clock::now());
    // Calls that fell due and were not begun, because all slots were taken.
    if (next_due_ < until) {
      sample_.unstarted = (until - next_due_) / schedule_.interval;
    }
  }
  return std::move(sample_);
}

}  // namespace verbena::bench
