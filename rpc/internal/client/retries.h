// Calls that are tried again as their service config has it.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_RETRIES_H_
#define VERBENA_RPC_INTERNAL_CLIENT_RETRIES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rpc/internal/client/poller_timer.h"
#include "rpc/internal/client/shared_poller.h"
#include "rpc/internal/service/retry_throttle.h"
#include "rpc/internal/service/service_config.h"
#include "rpc/metadata.h"
#include "transport/polling/ownership.h"

namespace verbena::internal {

class OpenCall;

// The attempts of a call that has a retry policy.
struct RetryState {
  RetryState(OpenCall* whose, std::shared_ptr<const ServiceConfig> of,
             const RetryPolicy* by)
      : call(whose),
        config(std::move(of)),
        policy(by),
        next_backoff(by->initial_backoff) {}

  OpenCall* const call;
  const std::shared_ptr<const ServiceConfig> config;  // Has the policy.
  const RetryPolicy* const policy;
  int attempts = 1;  // Those that have begun.
  absl::Duration next_backoff;
  absl::Time due = absl::InfinitePast();  // The end of the pause.
};

// Decides which calls of a channel are tried again, and keeps them until their
// pauses are over (gRPC's proposal A6).
//
// All functions REQUIRE the poller's ownership.
class Retries {
 public:
  // `again` is called with a call whose pause is over. Both outlive this.
  Retries(SharedPoller* poller, std::function<void(OpenCall*)> again);
  Retries(const Retries&) = delete;
  Retries& operator=(const Retries&) = delete;

  // Another service config is in use.
  void Configure(const RetryThrottling* throttling) {
    throttle_.Configure(throttling);
  }

  // An attempt of a call has ended with `status`, and `trailing` metadata.
  // Returns how long it pauses before the next one; nothing if there is none.
  std::optional<absl::Duration> Next(RetryState* state,
                                     const absl::Status& status,
                                     const Metadata& trailing);
  // An attempt has ended well.
  void NoteSuccess() { throttle_.NoteSuccess(); }

  // Keeps the call for `pause`, but not beyond its deadline.
  void Keep(RetryState* state, absl::Duration pause, absl::Time deadline);
  // Takes it out.
  void Remove(RetryState* state) { pauses_.erase({state->due, state}); }
  // Takes all out.
  std::vector<OpenCall*> RemoveAll();

 private:
  void OnTime(absl::Time now);

  SharedPoller& poller_;
  const std::function<void(OpenCall*)> again_;
  PollerTimer timer_;
  RetryThrottle throttle_;
  std::minstd_rand random_;
  std::set<std::pair<absl::Time, RetryState*>> pauses_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_RETRIES_H_
