// The pauses between attempts to connect.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_BACKOFF_H_
#define VERBENA_RPC_INTERNAL_CLIENT_BACKOFF_H_

#include <algorithm>

#include "absl/random/random.h"
#include "absl/time/time.h"

namespace verbena::internal {

// Doubles from `initial` to `max`; each pause is off by up to a fifth, so that
// the clients of a server that returns don't come all at once. For one thread.
class Backoff {
 public:
  // REQUIRES: 0 < initial <= max.
  Backoff(absl::Duration initial, absl::Duration max)
      : initial_(initial), max_(max), next_(initial) {}

  // How long to wait after one more failure.
  absl::Duration Next() {
    const absl::Duration pause = next_ * absl::Uniform(random_, 0.8, 1.2);
    next_ = std::min(next_ * 2, max_);
    return pause;
  }

  // An attempt succeeded.
  void Reset() { next_ = initial_; }

 private:
  const absl::Duration initial_;
  const absl::Duration max_;
  absl::Duration next_;
  absl::InsecureBitGen random_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_BACKOFF_H_
