// Counts latencies in little memory, with a bounded relative error.

#ifndef VERBENA_TOOLS_LOAD_LATENCY_HISTOGRAM_H_
#define VERBENA_TOOLS_LOAD_LATENCY_HISTOGRAM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace verbena::bench {

// A log-linear histogram of nanoseconds: every power of two is divided into
// kSubBuckets equal parts, so a quantile is at most 1/kSubBuckets too high and
// never too low. What took longer than kMax is counted as kMax.
//
// Record() allocates nothing. Not thread-safe: give each thread its own and
// Merge() them.
class LatencyHistogram {
 public:
  static constexpr int kSubBucketBits = 7;
  static constexpr uint64_t kSubBuckets = uint64_t{1} << kSubBucketBits;
  static constexpr uint64_t kMax = (uint64_t{1} << 42) - 1;  // 73 minutes.

  LatencyHistogram();

  void Record(uint64_t nanoseconds) {
    if (nanoseconds > kMax) nanoseconds = kMax;
    ++counts_[BucketOf(nanoseconds)];
    ++count_;
    if (nanoseconds > max_) max_ = nanoseconds;
  }

  void Merge(const LatencyHistogram& other);

  uint64_t count() const { return count_; }
  uint64_t max() const { return max_; }

  // Returns the mean of the recorded values in nanoseconds, or 0 if there are
  // none. Each counts as the middle of its bucket, so the mean is off by at
  // most half of 1/kSubBuckets. A sum kept by Record() would be exact, but
  // Record() is part of what is measured.
  double Mean() const;

  // Returns a value that at least the share `quantile` of the recorded values
  // does not exceed; Quantile(0.5) is the median. Returns 0 if there are none.
  // REQUIRES: 0 <= quantile <= 1.
  uint64_t Quantile(double quantile) const;

  // The bucket that counts `nanoseconds`, and the largest value that it counts.
  // For tests. REQUIRES: nanoseconds <= kMax.
  static size_t BucketOf(uint64_t nanoseconds);
  static uint64_t LargestIn(size_t bucket);

 private:
  std::vector<uint64_t> counts_;  // By bucket; the size never changes.
  uint64_t count_ = 0;            // The sum of counts_.
  uint64_t max_ = 0;
};

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_LOAD_LATENCY_HISTOGRAM_H_
