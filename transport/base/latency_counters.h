// How long things took: a histogram that one thread fills and others read.

#ifndef VERBENA_TRANSPORT_BASE_LATENCY_COUNTERS_H_
#define VERBENA_TRANSPORT_BASE_LATENCY_COUNTERS_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "transport/base/counter.h"

namespace verbena::base {

// Buckets of which each reaches twice as far as the one before it.
class LatencyCounters {
 public:
  // The first bucket reaches to 1.024 us, that included, the last but one to
  // 17.2 s, and the last one has no end.
  static constexpr int kFirstBits = 10;
  static constexpr int kBuckets = 26;

  // Returns the bucket's inclusive upper bound. REQUIRES: it is not the last.
  static constexpr uint64_t UpperBoundNanos(int bucket) {
    return uint64_t{1} << (kFirstBits + bucket);
  }
  static int BucketOf(uint64_t nanos) {
    const uint64_t below = nanos == 0 ? 0 : nanos - 1;
    return std::min(static_cast<int>(std::bit_width(below >> kFirstBits)),
                    kBuckets - 1);
  }

  // Counts `things` that took `nanos` each.
  void Add(uint64_t nanos, uint64_t things = 1) {
    buckets_[static_cast<size_t>(BucketOf(nanos))].Add(things);
    sum_nanos_.Add(nanos * things);
  }

  uint64_t count(int bucket) const {
    return buckets_[static_cast<size_t>(bucket)].value();
  }
  uint64_t sum_nanos() const { return sum_nanos_.value(); }

 private:
  Counter sum_nanos_;
  std::array<Counter, kBuckets> buckets_;
};

}  // namespace verbena::base

#endif  // VERBENA_TRANSPORT_BASE_LATENCY_COUNTERS_H_
