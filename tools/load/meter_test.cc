#include "tools/load/meter.h"

#include <chrono>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tools/load/workload.h"

namespace verbena::bench {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

const absl::Duration kDuration = absl::Seconds(1);

// Ends the warm-up; returns when.
Clock::time_point WarmUp(const Schedule& schedule, Meter& meter) {
  Clock::time_point now = schedule.warm_at_least;
  for (uint64_t i = 0; i < schedule.warm_up_calls; ++i) {
    meter.End(meter.Start(now - microseconds(5)), now, absl::OkStatus());
  }
  return now;
}

TEST(MeterTest, AClosedLoopIsAlwaysDueUntilItIsOver) {
  const Schedule schedule({.outstanding = 1}, kDuration);
  Meter meter(schedule);
  const Clock::time_point begin = WarmUp(schedule, meter);
  EXPECT_TRUE(meter.Due(begin));
  EXPECT_TRUE(meter.Due(begin + milliseconds(999)));
  EXPECT_FALSE(meter.Due(begin + milliseconds(1000)));
  EXPECT_TRUE(meter.Over(begin + milliseconds(1000)));
}

TEST(MeterTest, CountsOnlyWhatStartedAfterTheWarmUp) {
  const Schedule schedule({.outstanding = 1}, kDuration);
  Meter meter(schedule);
  const Clock::time_point early = meter.Start(schedule.warm_at_least);
  const Clock::time_point begin = WarmUp(schedule, meter);
  meter.End(early - milliseconds(1), begin + milliseconds(1), absl::OkStatus());
  const Clock::time_point due = meter.Start(begin + milliseconds(1));
  meter.End(due, begin + milliseconds(2), absl::OkStatus());
  const Sample sample = meter.Finish();
  EXPECT_EQ(sample.latencies.count(), 1u);
  EXPECT_EQ(sample.ended, schedule.warm_up_calls + 2);
  EXPECT_DOUBLE_EQ(sample.calls_per_s, 1 / 0.002);
}

TEST(MeterTest, AWarmUpThatTakesTooLongEnds) {
  const Schedule schedule({.outstanding = 32}, kDuration);
  Meter meter(schedule);
  const Clock::time_point late = schedule.warm_at_most;
  meter.End(meter.Start(late - microseconds(5)), late, absl::OkStatus());
  const Clock::time_point next = late + microseconds(5);
  meter.End(meter.Start(next), next + microseconds(5), absl::OkStatus());
  EXPECT_GE(meter.Finish().latencies.count(), 1u);
}

TEST(MeterTest, AnOpenLoopStartsCallsByTheClock) {
  const Schedule schedule({.outstanding = 1, .rate_per_s = 1000}, kDuration);
  const Clock::time_point before = Clock::now();
  Meter meter(schedule);
  const Clock::time_point now = before + milliseconds(500);
  int started = 0;
  Clock::time_point last;
  for (; meter.Due(now); ++started) {
    const Clock::time_point due = meter.Start(now);
    if (started > 0) {
      EXPECT_EQ(due - last, milliseconds(1));
    }
    last = due;
  }
  // The first was due when the meter was made, a moment after `before`.
  EXPECT_GE(started, 400);
  EXPECT_LE(started, 501);
}

TEST(MeterTest, AnOpenLoopCountsTheTimeThatACallWaitedToStart) {
  const Schedule schedule({.outstanding = 1, .rate_per_s = 1000}, kDuration);
  Meter meter(schedule);
  Clock::time_point now = WarmUp(schedule, meter);
  Clock::time_point due = meter.Start(now);
  while (due < now) due = meter.Start(now);
  // The server stalls; then all that were due meanwhile take no time.
  now = due + milliseconds(100);
  meter.End(due, now, absl::OkStatus());
  while (meter.Due(now)) meter.End(meter.Start(now), now, absl::OkStatus());
  const Sample sample = meter.Finish();
  EXPECT_NEAR(sample.latencies.count(), 101, 1);
  EXPECT_NEAR(sample.latencies.Quantile(0.5), 50e6, 2e6);
}

TEST(MeterTest, AnOpenLoopSaysWhatItCouldNotStart) {
  Schedule schedule({.outstanding = 1, .rate_per_s = 1e6}, kDuration);
  Meter meter(schedule);
  while (Clock::now() < schedule.warm_at_least) {
  }
  EXPECT_GT(meter.Finish().unstarted, 0u);
}

TEST(MeterTest, CountsACallThatTakesLongerThanAll) {
  const Schedule schedule({.outstanding = 1}, kDuration);
  Meter meter(schedule);
  const Clock::time_point begin = WarmUp(schedule, meter);
  const Clock::time_point due = meter.Start(begin);
  meter.End(due, begin + milliseconds(5000), absl::OkStatus());
  EXPECT_TRUE(meter.Over(begin + milliseconds(5000)));
  const Sample sample = meter.Finish();
  EXPECT_EQ(sample.latencies.count(), 1u);
  EXPECT_DOUBLE_EQ(sample.calls_per_s, 0.2);
}

TEST(MeterTest, StopsAfterSoManyIterations) {
  const Schedule schedule({.outstanding = 1, .iterations = 3}, kDuration);
  Meter meter(schedule);
  const Clock::time_point now = WarmUp(schedule, meter);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(meter.Due(now));
    meter.End(meter.Start(now), now, absl::OkStatus());
  }
  EXPECT_TRUE(meter.Over(now));
}

TEST(MeterTest, KeepsTheFirstError) {
  const Schedule schedule({.outstanding = 1}, kDuration);
  Meter meter(schedule);
  const Clock::time_point now = WarmUp(schedule, meter);
  meter.End(now, now, absl::UnavailableError("gone"));
  meter.Fail(absl::InternalError("other"));
  const Sample sample = meter.Finish();
  EXPECT_EQ(sample.errors, 2u);
  EXPECT_EQ(sample.first_error, absl::UnavailableError("gone"));
}

}  // namespace
}  // namespace verbena::bench
