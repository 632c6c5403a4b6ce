// Who sleeps until something happens at a poller, and how to wake it.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_POLLER_SLEEP_H_
#define VERBENA_RPC_INTERNAL_CLIENT_POLLER_SLEEP_H_

#include <atomic>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/connection/poller.h"

namespace verbena::internal {

// One thread at a time may sleep at a transport poller: two would take each
// other's wake-ups. It is the holder of the polling role, or the *watcher*: the
// background thread, which sleeps without the role. A poller that is slept at
// must stay until the sleeper has left.
//
// Thread-safe.
class PollerSleep {
 public:
  PollerSleep() = default;
  PollerSleep(const PollerSleep&) = delete;
  PollerSleep& operator=(const PollerSleep&) = delete;

  // The holder of the role is about to sleep at `poller`. Waits for the watcher
  // to leave. What is posted after this wakes the holder, so it must look for
  // work once more before it sleeps.
  void EnterAsHolder(transport::Poller* poller);
  void LeaveAsHolder();
  // Wakes the holder, if it sleeps or is about to. Costs a look at a flag if it
  // does not.
  void WakeHolder() {
    if (holder_sleeps_.load(std::memory_order_seq_cst)) WakeHolderSlow();
  }

  // The same for the watcher. REQUIRES: it holds the role when it enters.
  void EnterAsWatcher(transport::Poller* poller);
  void LeaveAsWatcher();
  // Returns whether the watcher sleeps or is about to; if so, wakes it.
  bool WakeWatcher();

 private:
  void WakeHolderSlow();

  // The holder sleeps, or is about to. Written before the holder's last look at
  // what was posted, and read by whoever posts after that: both sequentially
  // consistent, so that one of them sees the other.
  std::atomic<bool> holder_sleeps_{false};

  base::Mutex mutex_;
  base::CondVar watcher_left_;
  // Where somebody sleeps; null if nobody does.
  transport::Poller* poller_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // That is the watcher, not the holder.
  bool watcher_sleeps_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_POLLER_SLEEP_H_
