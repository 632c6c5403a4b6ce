// What a SharedPoller asks of whom it polls for.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_POLLER_USER_H_
#define VERBENA_RPC_INTERNAL_CLIENT_POLLER_USER_H_

#include "absl/time/time.h"

namespace verbena::internal {

// A channel, as seen by the SharedPoller that has its connection polled.
class PollerUser {
 public:
  // --- With the role held ---

  // The connection takes no calls (any more). Maybe from inside it: see
  // SharedPoller::in_transport().
  virtual void OnConnectionUnusable() = 0;

  // It is the time of SharedPoller::LowerTimer().
  virtual void OnTimer(absl::Time now) = 0;

  // --- On the background thread ---

  // What may block, without the role. Called after each NotifyBackground().
  virtual void RunBlocking() = 0;

  // Called after RunBlocking() with the role held, unless another thread has
  // it.
  virtual void OnNotified() = 0;

  // Without the role: the thread's last act. Nobody waits for anything now.
  virtual void OnStop() = 0;

 protected:
  ~PollerUser() = default;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_POLLER_USER_H_
