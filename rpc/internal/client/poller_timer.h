// A timer of somebody who is polled for.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_POLLER_TIMER_H_
#define VERBENA_RPC_INTERNAL_CLIENT_POLLER_TIMER_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/time/time.h"

namespace verbena::internal {

// Goes off once, at the earliest of the times that SharedPoller::LowerTimer()
// was told of, and can then be set again. REQUIRES: it is not set when it is
// destroyed.
class PollerTimer {
 public:
  // `on_time` is called with the poller's ownership held.
  explicit PollerTimer(std::function<void(absl::Time now)> on_time)
      : on_time_(std::move(on_time)) {}
  PollerTimer(const PollerTimer&) = delete;
  PollerTimer& operator=(const PollerTimer&) = delete;

 private:
  friend class SharedPoller;

  const std::function<void(absl::Time now)> on_time_;
  // Under the poller's ownership: when it goes off, and behind which others of
  // that time.
  absl::Time due_ = absl::InfiniteFuture();
  uint64_t order_ = 0;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_POLLER_TIMER_H_
