#include "transport/base/latency_counters.h"

#include <cstdint>
#include <thread>

#include "gtest/gtest.h"
#include "transport/base/counter.h"

namespace verbena::base {
namespace {

TEST(LatencyCountersTest, ABoundBelongsToItsBucket) {
  EXPECT_EQ(LatencyCounters::BucketOf(0), 0);
  for (int i = 0; i < LatencyCounters::kBuckets - 1; ++i) {
    const uint64_t bound = LatencyCounters::UpperBoundNanos(i);
    EXPECT_EQ(LatencyCounters::BucketOf(bound), i);
    EXPECT_EQ(LatencyCounters::BucketOf(bound + 1), i + 1);
  }
  EXPECT_EQ(LatencyCounters::BucketOf(UINT64_MAX),
            LatencyCounters::kBuckets - 1);
}

TEST(LatencyCountersTest, CountsAndAddsUp) {
  LatencyCounters latency;
  latency.Add(1000);
  latency.Add(3000);
  latency.Add(3500);
  latency.Add(20000, 8);
  EXPECT_EQ(latency.count(0), 1u);
  EXPECT_EQ(latency.count(1), 0u);
  EXPECT_EQ(latency.count(2), 2u);
  EXPECT_EQ(latency.count(5), 8u);
  EXPECT_EQ(latency.sum_nanos(), 167500u);
}

TEST(CounterTest, OthersReadWhileOneCounts) {
  constexpr uint64_t kCounts = 100'000;
  Counter counter;
  std::thread writer([&counter] {
    for (uint64_t i = 0; i < kCounts; ++i) counter.Add();
  });
  uint64_t last = 0;
  while (last < kCounts) {
    const uint64_t value = counter.value();
    ASSERT_GE(value, last);
    last = value;
  }
  writer.join();
  counter.Subtract(3);
  EXPECT_EQ(counter.value(), kCounts - 3);
}

}  // namespace
}  // namespace verbena::base
