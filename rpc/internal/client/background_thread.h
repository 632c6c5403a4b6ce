// The thread that polls when nobody else does, and does what may block.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_BACKGROUND_THREAD_H_
#define VERBENA_RPC_INTERNAL_CLIENT_BACKGROUND_THREAD_H_

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "transport/base/mpsc_queue.h"
#include "transport/base/mutex.h"
#include "transport/base/thread_group.h"
#include "transport/polling/poller_threads.h"
#include "transport/polling/spin_policy.h"

namespace verbena::internal {

class SharedPoller;

// Runs tasks that may block, such as callbacks, without the ownership of the
// poller. Polls while something is pending and no thread is in a blocking call.
// While nothing is pending, *watches*: sleeps at the transport's poller,
// without the ownership, so that the next caller need not wake it.
//
// A task that blocks holds up no other: another thread takes over, and is "the
// thread" from then on. See PollerThreads.
//
// Functions are for any thread. Destroy it after Stop().
class BackgroundThread {
 public:
  // Both must outlive it.
  BackgroundThread(SharedPoller* poller, transport::SpinPolicy* spin);
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;
  ~BackgroundThread() = default;

  // Starts the thread. RESOURCE_EXHAUSTED if the system gives us none.
  absl::Status Start();

  // For a simulation, which calls this instead of Start(): does what the thread
  // does between two sleeps. Runs tasks, polls, and runs timers. Returns
  // whether there was something to do.
  bool Step();

  // Has the thread look whether there is something to do.
  void Notify();

  // Has `task` run, after those that were posted before have begun.
  void Post(transport::ShortTask* task) {
    posted_.Push(task);
    Notify();
  }

  // Waits until the thread does not watch. For the owner of the poller, so
  // that the thread does not begin to watch before the owner has released
  // the ownership.
  void EndWatch();

  // Ends the thread, and joins it when the tasks that run are over. REQUIRES:
  // Start() was called, if in vain, and no task waits.
  void Stop();

  // Whether the calling thread is in a task of this, or in a callback that it
  // called where the reply was parsed.
  bool RunsTask() const;
  // As RunsTask(), but for the tasks of any SharedPoller.
  static bool RunsAnyTask();

  // While a TaskScope lives, the calling thread counts as one that runs a task
  // of `thread`: it may be in the middle of a round, and call a callback.
  class TaskScope {
   public:
    explicit TaskScope(const BackgroundThread* thread);
    TaskScope(const TaskScope&) = delete;
    TaskScope& operator=(const TaskScope&) = delete;
    ~TaskScope();

   private:
    const BackgroundThread* const outer_;
  };

 private:
  // The thread is in here until Stop(), or until another one takes over.
  void Drive();
  bool AnyTasks() const { return !threads_.empty() || !posted_.empty(); }
  // Runs some of the tasks. Returns false if another thread has taken over.
  [[nodiscard]] bool RunTasks();
  // Does what there is to do with the ownership of the poller; returns when to
  // look again, unless notified.
  absl::Time Serve();
  // By the owner of the poller: polls for what is pending.
  void PollForPending();
  // By the owner of the poller, after PrepareSleep(): begins to watch. Returns
  // whether nobody has notified the thread.
  bool BeginWatch();
  void LeaveWatch();

  SharedPoller* const poller_;
  base::MpscQueue<transport::ShortTask> posted_;

  // The thread has to look. Sequentially consistent: it is cleared before the
  // thread looks, and set after there is something to be seen.
  std::atomic<bool> notified_{false};
  // The thread may be asleep, or fall asleep without another look. It is set
  // before the thread looks at notified_ for the last time, and looked at after
  // that was set, so of the two one sees the other.
  std::atomic<bool> may_sleep_{false};
  std::atomic<bool> stop_{false};

  base::Mutex mutex_;
  base::CondVar wake_;     // notified_ or stop_ was set.
  base::CondVar watched_;  // watches_ became false.
  bool watches_ ABSL_GUARDED_BY(mutex_) = false;

  // The fields below are confined to the thread.
  uint64_t seen_calls_ = 0;  // SharedPoller::started_calls_ of its last look.
  transport::SpinPolicy::Wait wait_;  // For something to do.

  transport::Ownership ownership_;  // Held by "the thread".
  transport::PollerThreads threads_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_BACKGROUND_THREAD_H_
