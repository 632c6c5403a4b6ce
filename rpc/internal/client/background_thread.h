// The thread that polls when nobody else does.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_BACKGROUND_THREAD_H_
#define VERBENA_RPC_INTERNAL_CLIENT_BACKGROUND_THREAD_H_

#include <atomic>
#include <cstdint>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "rpc/internal/client/poller_user.h"
#include "transport/base/mutex.h"
#include "transport/connection/spin_policy.h"

namespace verbena::internal {

class SharedPoller;

// Polls for callbacks while no thread is in a blocking call; does what may
// block; and while nothing is open, sleeps without the role until the
// connection has something to say, so that the next caller need not wake it.
//
// Notify() is for any thread.
class BackgroundThread {
 public:
  // All must outlive it.
  BackgroundThread(SharedPoller* poller, transport::SpinPolicy* spin,
                   PollerUser* user)
      : poller_(poller), user_(user), wait_(spin) {}
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;
  ~BackgroundThread();

  // Has the thread look whether there is something to do. The first time, it
  // starts the thread.
  void Notify();

  // Has the thread call PollerUser::OnStop(), and joins it. Nothing if it was
  // never started.
  void Stop();

 private:
  void Run();
  // Does what there is to do; returns when to look again, unless notified.
  absl::Time Serve();
  // The next two with the role held.
  void PollForCallbacks();
  // Enters where the thread sleeps until something happens at the connection.
  // Returns whether it is worth sleeping.
  bool PrepareToWait();
  // Whether there is something to do.
  bool Notified();

  SharedPoller* const poller_;
  PollerUser* const user_;

  base::Mutex mutex_;
  base::CondVar wake_;
  bool notified_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);  // Started by Notify().
  // Written under the mutex, also read without it.
  std::atomic<bool> stop_{false};

  // The rest is confined to the thread, and is as of its last look with the
  // role held.
  uint64_t seen_calls_ = 0;  // SharedPoller::started_calls_.
  bool saw_connection_ = false;
  transport::SpinPolicy::Wait wait_;  // For something to do.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_BACKGROUND_THREAD_H_
