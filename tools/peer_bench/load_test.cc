#include "tools/peer_bench/load.h"

#include <atomic>
#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace verbena::peers {
namespace {

using std::chrono::steady_clock;

// Takes so long as a call, on the processor, so that it is never shorter.
void Spin(steady_clock::duration time) {
  const steady_clock::time_point end = steady_clock::now() + time;
  while (steady_clock::now() < end) {
  }
}

void Nothing() {}

TEST(LoadTest, CallersCallBackToBackAndAllCountedCallsAreMade) {
  std::atomic<uint64_t> made = 0;
  const Echo echo = [&] {
    Spin(std::chrono::microseconds(10));
    ++made;
    return absl::OkStatus();
  };
  const absl::StatusOr<LoadResult> result = RunLoad(
      {.warm_up = absl::ZeroDuration(), .duration = absl::Milliseconds(100)},
      {echo, echo}, Nothing, Nothing);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->latency.count(), made);
  ASSERT_EQ(result->calls.size(), 2u);
  EXPECT_EQ(result->calls[0] + result->calls[1], made);
  EXPECT_LE(result->calls[0], result->calls[1]);
  EXPECT_EQ(result->late, 0u);
  EXPECT_GE(result->latency.Quantile(0), 10'000u);
  EXPECT_GE(result->seconds, 0.05);
}

TEST(LoadTest, WhatTheWarmUpCallsIsNotCounted) {
  std::atomic<uint64_t> made = 0;
  const absl::StatusOr<LoadResult> result =
      RunLoad({.rate = 1000,
               .warm_up = absl::Milliseconds(100),
               .duration = absl::Milliseconds(100)},
              {[&] {
                ++made;
                return absl::OkStatus();
              }},
              Nothing, Nothing);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(result->latency.count(), 0u);
  EXPECT_LT(result->latency.count(), made);
}

TEST(LoadTest, CallersShareTheRate) {
  const Echo echo = [] { return absl::OkStatus(); };
  const absl::StatusOr<LoadResult> result =
      RunLoad({.rate = 1000,
               .warm_up = absl::ZeroDuration(),
               .duration = absl::Milliseconds(100)},
              {echo, echo, echo, echo}, Nothing, Nothing);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(result->latency.count(), 0u);
  EXPECT_LE(result->latency.count(), 100u);
}

TEST(LoadTest, LateCallsAreMadeAtOnceAndThoseBeforeThemLeftOut) {
  // While a call runs, three more become due. One of them is made, late.
  const absl::StatusOr<LoadResult> result =
      RunLoad({.rate = 1000,
               .warm_up = absl::ZeroDuration(),
               .duration = absl::Milliseconds(40)},
              {[] {
                Spin(std::chrono::microseconds(3500));
                return absl::OkStatus();
              }},
              Nothing, Nothing);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_LE(result->latency.count(), 12u);
  EXPECT_EQ(result->late, result->latency.count());
}

TEST(LoadTest, TellsWhenItCountsAndWhenAllIsOver) {
  std::atomic<bool> started = false;
  std::atomic<int> made = 0;
  const Echo echo = [&] {
    started.wait(false);
    ++made;
    return absl::OkStatus();
  };
  int made_at_end = -1;
  const absl::StatusOr<LoadResult> result = RunLoad(
      {.warm_up = absl::Milliseconds(1), .duration = absl::Milliseconds(100)},
      {echo, echo},
      [&] {
        started = true;
        started.notify_all();
      },
      [&] { made_at_end = made; });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GE(made_at_end, 1);
  EXPECT_EQ(made_at_end, made);
}

TEST(LoadTest, FailsAsACallFails) {
  const Echo good = [] { return absl::OkStatus(); };
  const Echo bad = [] { return absl::AbortedError("no more"); };
  const absl::StatusOr<LoadResult> result = RunLoad(
      {.warm_up = absl::ZeroDuration(), .duration = absl::Milliseconds(100)},
      {good, bad}, Nothing, Nothing);
  EXPECT_EQ(result.status(), absl::AbortedError("no more"));
}

}  // namespace
}  // namespace verbena::peers
