#include "tools/load/callers.h"

#include <atomic>
#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace verbena::bench {
namespace {

using std::chrono::steady_clock;

// Takes so long as a call, on the processor, so that it is never shorter.
void Spin(steady_clock::duration time) {
  const steady_clock::time_point end = steady_clock::now() + time;
  while (steady_clock::now() < end) {
  }
}

void Nothing() {}

TEST(CallersTest, CallersCallBackToBackAndAllCountedCallsAreMade) {
  std::atomic<uint64_t> made = 0;
  const BlockingCall echo = [&] {
    Spin(std::chrono::microseconds(10));
    ++made;
    return absl::OkStatus();
  };
  const Sample sample =
      RunCallers({echo, echo}, {.warm_up = absl::ZeroDuration()},
                 absl::Milliseconds(100), Nothing, Nothing);
  EXPECT_EQ(sample.first_error, absl::OkStatus());
  EXPECT_EQ(sample.latencies.count(), made);
  ASSERT_EQ(sample.calls_of_callers.size(), 2u);
  EXPECT_EQ(sample.calls_of_callers[0] + sample.calls_of_callers[1], made);
  EXPECT_LE(sample.calls_of_callers[0], sample.calls_of_callers[1]);
  EXPECT_EQ(sample.late, 0u);
  EXPECT_GE(sample.latencies.Quantile(0), 10'000u);
  EXPECT_GT(sample.calls_per_s, 0);
}

TEST(CallersTest, WhatTheWarmUpCallsIsNotCounted) {
  std::atomic<uint64_t> made = 0;
  const Sample sample =
      RunCallers({[&] {
                   ++made;
                   return absl::OkStatus();
                 }},
                 {.rate_per_s = 1000, .warm_up = absl::Milliseconds(100)},
                 absl::Milliseconds(100), Nothing, Nothing);
  EXPECT_EQ(sample.first_error, absl::OkStatus());
  EXPECT_GT(sample.latencies.count(), 0u);
  EXPECT_LT(sample.latencies.count(), made);
}

TEST(CallersTest, CallersShareTheRate) {
  const BlockingCall echo = [] { return absl::OkStatus(); };
  const Sample sample =
      RunCallers({echo, echo, echo, echo},
                 {.rate_per_s = 1000, .warm_up = absl::ZeroDuration()},
                 absl::Milliseconds(100), Nothing, Nothing);
  EXPECT_EQ(sample.first_error, absl::OkStatus());
  EXPECT_GT(sample.latencies.count(), 0u);
  EXPECT_LE(sample.latencies.count(), 100u);
}

TEST(CallersTest, LateCallsAreMadeAtOnceAndThoseBeforeThemLeftOut) {
  // While a call runs, three more become due. One of them is made, late.
  const Sample sample =
      RunCallers({[] {
                   Spin(std::chrono::microseconds(3500));
                   return absl::OkStatus();
                 }},
                 {.rate_per_s = 1000, .warm_up = absl::ZeroDuration()},
                 absl::Milliseconds(40), Nothing, Nothing);
  EXPECT_EQ(sample.first_error, absl::OkStatus());
  EXPECT_LE(sample.latencies.count(), 12u);
  EXPECT_EQ(sample.late, sample.latencies.count());
}

TEST(CallersTest, TellsWhenItCountsAndWhenAllIsOver) {
  std::atomic<bool> started = false;
  std::atomic<int> made = 0;
  const BlockingCall echo = [&] {
    started.wait(false);
    ++made;
    return absl::OkStatus();
  };
  int made_at_end = -1;
  const Sample sample = RunCallers(
      {echo, echo}, {.warm_up = absl::Milliseconds(1)}, absl::Milliseconds(100),
      [&] {
        started = true;
        started.notify_all();
      },
      [&] { made_at_end = made; });
  EXPECT_EQ(sample.first_error, absl::OkStatus());
  EXPECT_GE(made_at_end, 1);
  EXPECT_EQ(made_at_end, made);
}

TEST(CallersTest, FailsAsACallFails) {
  const BlockingCall good = [] { return absl::OkStatus(); };
  const BlockingCall bad = [] { return absl::AbortedError("no more"); };
  const Sample sample =
      RunCallers({good, bad}, {.warm_up = absl::ZeroDuration()},
                 absl::Milliseconds(100), Nothing, Nothing);
  EXPECT_EQ(sample.first_error, absl::AbortedError("no more"));
  EXPECT_EQ(sample.errors, 1u);
}

}  // namespace
}  // namespace verbena::bench
