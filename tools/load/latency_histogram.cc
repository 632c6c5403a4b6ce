#include "tools/load/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "transport/base/check.h"

namespace verbena::bench {

// Values below kSubBuckets have a bucket each. Above, a value's highest
// kSubBucketBits + 1 bits say its bucket, and the bits cut off below them, of
// which there are `shift`, its group.

LatencyHistogram::LatencyHistogram() : counts_(BucketOf(kMax) + 1) {}

size_t LatencyHistogram::BucketOf(uint64_t nanoseconds) {
  const int shift = std::max(
      0, static_cast<int>(std::bit_width(nanoseconds)) - 1 - kSubBucketBits);
  return shift * kSubBuckets + (nanoseconds >> shift);
}

uint64_t LatencyHistogram::LargestIn(size_t bucket) {
  if (bucket < kSubBuckets) return bucket;
  const uint64_t shift = bucket / kSubBuckets - 1;
  const uint64_t top = bucket - shift * kSubBuckets;
  return ((top + 1) << shift) - 1;
}

void LatencyHistogram::Merge(const LatencyHistogram& other) {
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
}

double LatencyHistogram::Mean() const {
  if (count_ == 0) return 0;
  double sum = 0;
  double smallest = 0;  // In the bucket.
  for (size_t i = 0; i < counts_.size(); ++i) {
    // Each value counts as the middle of its bucket.
    const auto largest = static_cast<double>(LargestIn(i));
    sum += static_cast<double>(counts_[i]) * (smallest + largest) / 2;
    smallest = largest + 1;
  }
  // The middle of the last bucket may be longer than all that was recorded.
  return std::min(sum / static_cast<double>(count_), static_cast<double>(max_));
}

// Counts buckets up to the rank of the value. The rank is at least 1, so that
// quantile 0 is the smallest value.
uint64_t LatencyHistogram::Quantile(double quantile) const {
  CHECK(quantile >= 0 && quantile <= 1) << quantile;
  if (count_ == 0) return 0;
  const uint64_t rank = std::max<uint64_t>(
      1, static_cast<uint64_t>(std::ceil(quantile * count_)));
  uint64_t seen = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    // The last bucket ends above the longest latency that was recorded.
    if (seen >= rank) return std::min(LargestIn(i), max_);
  }
  return max_;
}

}  // namespace verbena::bench
