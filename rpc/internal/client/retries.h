// Calls that are tried again as their service config has it.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_RETRIES_H_
#define VERBENA_RPC_INTERNAL_CLIENT_RETRIES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rpc/internal/client/poller_timer.h"
#include "rpc/internal/client/pushback.h"
#include "rpc/internal/client/shared_poller.h"
#include "rpc/internal/service/retry_throttle.h"
#include "rpc/internal/service/service_config.h"
#include "rpc/metadata.h"

namespace verbena::internal {

class OpenCall;

// The attempts of a call that has a retry policy.
struct RetryState {
  RetryState(std::shared_ptr<const ServiceConfig> of, const RetryPolicy* by)
      : config(std::move(of)), policy(by), next_backoff(by->initial_backoff) {}

  const std::shared_ptr<const ServiceConfig> config;  // Has the policy.
  const RetryPolicy* const policy;
  int attempts = 1;        // Those that have begun.
  bool committed = false;  // There is no further attempt.
  // The pause after an attempt that is being given up; nothing for others.
  std::optional<absl::Duration> pause;
  absl::Duration next_backoff;
};

// Decides which calls of a channel are tried again, and wakes them when their
// pauses are over (gRPC's proposal A6).
//
// All functions REQUIRE the poller's ownership.
class Retries {
 public:
  // `wake` is called with a call whose time has come. Both outlive this.
  Retries(SharedPoller* poller,
          std::function<void(OpenCall*, absl::Time now)> wake);
  Retries(const Retries&) = delete;
  Retries& operator=(const Retries&) = delete;

  // An attempt of a call has ended with `status`, and `trailing` metadata.
  // Returns how long it pauses before the next one; nothing if there is none.
  std::optional<absl::Duration> Next(RetryState* state,
                                     const absl::Status& status,
                                     const Metadata& trailing);
  // An attempt has had no answer for so long as the policy allows. Returns the
  // same; nothing if the attempt is to go on.
  std::optional<absl::Duration> NextAfterTimeout(RetryState* state);
  RetryThrottle& throttle() { return throttle_; }

  // A call that is to be woken: when, and behind how many others.
  using Wake = std::pair<absl::Time, uint64_t>;
  // Wakes the call at `due`, once, behind those that were told to wake then
  // before. REQUIRES: nothing else wakes it.
  Wake WakeAt(OpenCall* call, absl::Time due);
  // Does not wake that call, if it would.
  void Remove(const Wake& wake) { due_.erase(wake); }
  // Wakes none any more, and returns them.
  std::vector<OpenCall*> RemoveAll();

 private:
  std::optional<absl::Duration> Next(RetryState* state,
                                     const Pushback& pushback);
  void OnTime(absl::Time now);

  SharedPoller& poller_;
  const std::function<void(OpenCall*, absl::Time)> wake_;
  PollerTimer timer_;
  RetryThrottle throttle_;
  std::minstd_rand random_;
  uint64_t next_order_ = 0;
  std::map<Wake, OpenCall*> due_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_RETRIES_H_
