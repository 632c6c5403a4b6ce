// The thread that polls when nobody else does, and does what may block.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_BACKGROUND_THREAD_H_
#define VERBENA_RPC_INTERNAL_CLIENT_BACKGROUND_THREAD_H_

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rpc/internal/client/errand.h"
#include "transport/base/mpsc_queue.h"
#include "transport/base/mutex.h"
#include "transport/base/thread_group.h"
#include "transport/connection/spin_policy.h"
#include "transport/connection/stand_ins.h"

namespace verbena::internal {

class SharedPoller;

// Runs errands, without the polling role. Polls while something is pending and
// no thread is in a blocking call. And while nothing is, *watches*: sleeps at
// the transport's poller, without the role, so that the next caller need not
// wake it.
//
// An errand that blocks holds up no other: then another thread stands in, which
// is from then on the one that is meant here by "the thread". See StandIns.
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

  // What the thread does between two sleeps, for a simulation, which calls this
  // instead of Start(): runs errands, polls, and runs timers. Returns whether
  // there was something to do.
  bool Step();

  // Has the thread look whether there is something to do.
  void Notify();

  // Has `errand` run, after those that were added before have begun.
  void Add(Errand* errand) {
    errands_.Push(errand);
    Notify();
  }

  // Returns when the thread does not watch. By the holder of the role, so that
  // it does not begin to before the holder has released that.
  void EndWatch();

  // Ends the thread, and joins it when the errands that run are over. REQUIRES:
  // Start() was called, if in vain, and no errand waits.
  void Stop();

  // Whether the calling thread is in an errand of this, or in a callback that
  // it called where the reply was parsed.
  bool RunsErrand() const;
  // The same, of whichever SharedPoller.
  static bool RunsAnyErrand();

  // For as long as it lives the calling thread counts as one that runs an
  // errand of `thread`: it calls a callback in the middle of a round.
  class CallbackScope {
   public:
    explicit CallbackScope(const BackgroundThread* thread);
    CallbackScope(const CallbackScope&) = delete;
    CallbackScope& operator=(const CallbackScope&) = delete;
    ~CallbackScope();

   private:
    const BackgroundThread* const outer_;
  };

 private:
  // The life of a thread that stands in, from then on.
  void StandIn();
  // What the thread does until Stop(), or until another one stands in for it.
  void Drive();
  bool AnyErrands() const { return first_ != nullptr || !errands_.empty(); }
  // Takes what was added to the end of the list that begins with first_.
  void TakeErrands();
  // Takes the first one of that list out, which is the driver's to do: another
  // thread may have the list as soon as this one is out of its seat.
  Errand* TakeFirst();
  void Run(Errand* errand);
  // Runs some of what was added, out of the seat. Returns false if another
  // thread stands in for us.
  [[nodiscard]] bool RunErrands();
  // Does what there is to do with the role; returns when to look again, unless
  // notified.
  absl::Time Serve();
  // With the role held: polls for what is pending.
  void PollForPending();
  // With the role held, after PrepareSleep(): begins to watch. Returns whether
  // nobody has notified the thread.
  bool BeginWatch();
  void LeaveWatch();

  SharedPoller* const poller_;
  base::MpscQueue<Errand> errands_;

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
  base::CondVar watched_;  // It watches no longer.
  bool watches_ ABSL_GUARDED_BY(mutex_) = false;

  // The rest is confined to the thread.
  Errand* first_ = nullptr;  // Errands taken from the queue, oldest first.
  Errand* last_ = nullptr;
  uint64_t seen_calls_ = 0;  // SharedPoller::started_calls_ of its last look.
  transport::SpinPolicy::Wait wait_;  // For something to do.

  transport::StandIns stand_ins_;
  base::ThreadGroup threads_{"verbena-client"};
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_BACKGROUND_THREAD_H_
