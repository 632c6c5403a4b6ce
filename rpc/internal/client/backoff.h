// The pauses between attempts to connect.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_BACKOFF_H_
#define VERBENA_RPC_INTERNAL_CLIENT_BACKOFF_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>

#include "absl/time/time.h"

namespace verbena::internal {

// The longest pause before another attempt if the last one cost nobody but this
// process. Plus its random part, it lets a client find a server that has
// returned within a second.
inline constexpr absl::Duration kCheapPauseMax = absl::Milliseconds(500);

// The channels of a process that wait to try again. However many there are,
// their attempts are on average at least kAttemptInterval apart: an attempt
// costs some hundred microseconds. Thread-safe.
class BackoffCrowd {
 public:
  static constexpr absl::Duration kAttemptInterval = absl::Milliseconds(2);

  void Enter() { count_.fetch_add(1, std::memory_order_relaxed); }
  void Leave() { count_.fetch_sub(1, std::memory_order_relaxed); }
  // Returns the shortest pause of each channel that waits.
  absl::Duration LeastPause() const {
    return count_.load(std::memory_order_relaxed) * kAttemptInterval;
  }

 private:
  std::atomic<int> count_{0};
};

// Doubles from `initial` to `max`; each pause is off by up to a fifth, so that
// the clients of a server that returns don't come all at once. For one thread.
class Backoff {
 public:
  // `seed` determines all random values. REQUIRES: 0 < initial <= max.
  Backoff(absl::Duration initial, absl::Duration max, uint64_t seed)
      : initial_(initial), max_(max), next_(initial), random_(Seeded(seed)) {}

  // Returns the pause after one more failure, plus or minus a fifth. If the
  // failure `was_cheap`, the pause is kCheapPauseMax at most, but never less
  // than `least`.
  absl::Duration Next(bool was_cheap, absl::Duration least) {
    const absl::Duration most = was_cheap ? kCheapPauseMax : max_;
    const absl::Duration pause = std::max(std::min(next_, most), least);
    next_ = std::min(next_ * 2, max_);
    return pause * std::uniform_real_distribution(0.8, 1.2)(random_);
  }

  // An attempt succeeded.
  void Reset() { next_ = initial_; }

 private:
  // Seeds that are close to each other must not lead to equal pauses.
  static std::minstd_rand Seeded(uint64_t seed) {
    std::seed_seq mixed{static_cast<uint32_t>(seed),
                        static_cast<uint32_t>(seed >> 32)};
    return std::minstd_rand(mixed);
  }

  const absl::Duration initial_;
  const absl::Duration max_;
  absl::Duration next_;
  std::minstd_rand random_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_BACKOFF_H_
