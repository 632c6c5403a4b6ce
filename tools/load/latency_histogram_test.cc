#include "tools/load/latency_histogram.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace verbena::bench {
namespace {

TEST(LatencyHistogramTest, IsEmptyAtFirst) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.max(), 0u);
  EXPECT_EQ(histogram.Mean(), 0);
  EXPECT_EQ(histogram.Quantile(0.5), 0u);
}

TEST(LatencyHistogramTest, SmallValuesAreExact) {
  LatencyHistogram histogram;
  for (uint64_t value = 1; value <= 100; ++value) histogram.Record(value);
  EXPECT_EQ(histogram.Quantile(0), 1u);
  EXPECT_EQ(histogram.Quantile(0.5), 50u);
  EXPECT_EQ(histogram.Quantile(0.99), 99u);
  EXPECT_EQ(histogram.Quantile(0.999), 100u);
  EXPECT_EQ(histogram.Quantile(1), 100u);
}

TEST(LatencyHistogramTest, TheMeanShowsATailThatTheMedianDoesNot) {
  LatencyHistogram histogram;
  for (int i = 0; i < 99; ++i) histogram.Record(100);
  EXPECT_DOUBLE_EQ(histogram.Mean(), 100);
  histogram.Record(100'000);
  EXPECT_EQ(histogram.Quantile(0.5), 100u);
  EXPECT_NEAR(histogram.Mean(), 1'099, 1'099 / 256.0);
}

TEST(LatencyHistogramTest, TheMeanIsWithinTheBoundOfTheTruth) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> distribution(9, 2);
  LatencyHistogram histogram;
  double sum = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto value = static_cast<uint64_t>(distribution(random));
    histogram.Record(value);
    sum += static_cast<double>(value);
  }
  const double truth = sum / 20'000;
  EXPECT_NEAR(histogram.Mean(), truth,
              truth / (2 * LatencyHistogram::kSubBuckets));
}

TEST(LatencyHistogramTest, OneValueIsEveryQuantile) {
  LatencyHistogram histogram;
  histogram.Record(1'234'567);
  EXPECT_EQ(histogram.Quantile(0), 1'234'567u);
  EXPECT_EQ(histogram.Quantile(0.999), 1'234'567u);
  EXPECT_NEAR(histogram.Mean(), 1'234'567, 1'234'567 / 256.0);
}

TEST(LatencyHistogramTest, TheMeanIsAtMostTheLargest) {
  LatencyHistogram histogram;
  histogram.Record(uint64_t{1} << 30);  // The smallest of its bucket.
  EXPECT_DOUBLE_EQ(histogram.Mean(), histogram.max());
}

TEST(LatencyHistogramTest, BucketsFollowOneAnotherWithoutGaps) {
  const size_t last = LatencyHistogram::BucketOf(LatencyHistogram::kMax);
  for (size_t bucket = 0; bucket < last; ++bucket) {
    const uint64_t largest = LatencyHistogram::LargestIn(bucket);
    ASSERT_EQ(LatencyHistogram::BucketOf(largest), bucket);
    ASSERT_EQ(LatencyHistogram::BucketOf(largest + 1), bucket + 1);
  }
  EXPECT_EQ(LatencyHistogram::LargestIn(last), LatencyHistogram::kMax);
}

TEST(LatencyHistogramTest, NoBucketIsWiderThanTheBound) {
  for (int power = 0; power < 42; ++power) {
    const uint64_t value = uint64_t{1} << power;
    const uint64_t largest =
        LatencyHistogram::LargestIn(LatencyHistogram::BucketOf(value));
    EXPECT_LE(largest - value, value / LatencyHistogram::kSubBuckets) << value;
  }
}

TEST(LatencyHistogramTest, QuantilesAreWithinTheBoundOfTheTruth) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> distribution(9, 2);
  LatencyHistogram histogram;
  std::vector<uint64_t> values;
  for (int i = 0; i < 20'000; ++i) {
    values.push_back(static_cast<uint64_t>(distribution(random)));
    histogram.Record(values.back());
  }
  std::sort(values.begin(), values.end());
  for (double quantile : {0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const uint64_t rank =
        static_cast<uint64_t>(std::ceil(quantile * values.size()));
    const uint64_t truth = values[rank - 1];
    EXPECT_GE(histogram.Quantile(quantile), truth) << quantile;
    EXPECT_LE(histogram.Quantile(quantile),
              truth + truth / LatencyHistogram::kSubBuckets)
        << quantile;
  }
}

TEST(LatencyHistogramTest, CountsWhatIsTooLongAsTheLongest) {
  LatencyHistogram histogram;
  histogram.Record(LatencyHistogram::kMax + 1);
  histogram.Record(UINT64_MAX);
  EXPECT_EQ(histogram.count(), 2u);
  EXPECT_EQ(histogram.Quantile(0.5), LatencyHistogram::kMax);
  const double longest = LatencyHistogram::kMax;
  EXPECT_NEAR(histogram.Mean(), longest,
              longest / (2 * LatencyHistogram::kSubBuckets));
}

TEST(LatencyHistogramTest, MergingIsRecordingAllInOne) {
  LatencyHistogram odd, even, all;
  for (uint64_t value = 0; value < 10'000; ++value) {
    (value % 2 == 0 ? even : odd).Record(value * 31);
    all.Record(value * 31);
  }
  odd.Merge(even);
  EXPECT_EQ(odd.count(), all.count());
  EXPECT_EQ(odd.max(), all.max());
  EXPECT_DOUBLE_EQ(odd.Mean(), all.Mean());
  for (double quantile : {0.1, 0.5, 0.99}) {
    EXPECT_EQ(odd.Quantile(quantile), all.Quantile(quantile));
  }
}

}  // namespace
}  // namespace verbena::bench
