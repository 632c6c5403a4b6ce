// The threads that drive a poller, one at a time, and run the user's code.

#ifndef VERBENA_TRANSPORT_POLLING_POLLER_THREADS_H_
#define VERBENA_TRANSPORT_POLLING_POLLER_THREADS_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "transport/base/intrusive_list.h"
#include "transport/base/mutex.h"
#include "transport/base/thread_group.h"
#include "transport/base/unique_fd.h"
#include "transport/polling/ownership.h"
#include "transport/polling/task.h"

namespace verbena::transport {

// A task that should take microseconds, such as a handler or a callback of a
// user's.
class ShortTask : public Task, public base::ListLink<ShortTask> {
 public:
  // Hears of a task that blocks. Outlives the task.
  class Observer {
   public:
    // The thread of a task was found asleep when the task had taken about a
    // millisecond, and the ownership was taken from it. New owner only.
    virtual void OnBlocked() = 0;

   protected:
    ~Observer() = default;
  };

  // The thread is held up by a task that came before this one. Has this one run
  // elsewhere, or returns false to have the new owner run it. New owner only.
  virtual bool MoveElsewhere() { return false; }

 protected:
  ShortTask() = default;
  explicit ShortTask(Observer* observer) : observer_(observer) {}
  ~ShortTask() = default;

 private:
  friend class PollerThreads;

  Observer* const observer_ = nullptr;
};

// The *owner*, the thread that has the ownership, polls, and between two rounds
// runs tasks, one at a time, for each of which it lends the ownership. If a
// task keeps the owner for half a millisecond to two, the *standby* takes over,
// if it is given a processor. So a task that blocks, on whatever, holds up for
// no longer what else the owner does.
//
// While there are tasks, the standby looks once a millisecond whether the same
// one still goes on, woken by a timer that the owner has to neither set nor
// reset for each. When the owner sleeps, the timer is left as it is: an owner
// that wakes again soon puts its next look off, so that it never comes. If the
// timer goes off while the owner sleeps, the standby stops it, and from then on
// the owner does so itself before it sleeps, until it is woken more often than
// that. So an owner that wakes and sleeps sets the timer once each time, or not
// at all, and twice where it is woken seldom; while it sleeps for long, so does
// the standby.
class PollerThreads {
 public:
  // `drive` is what a thread does while it is the owner of `ownership`. `drive`
  // returns when RunTasks() has returned false, or after End(). `name` is that
  // of the threads, and outlives them.
  PollerThreads(const char* name, Ownership* ownership,
                std::function<void()> drive);
  PollerThreads(const PollerThreads&) = delete;
  PollerThreads& operator=(const PollerThreads&) = delete;
  // REQUIRES: Join() has returned, and no task waits.
  ~PollerThreads();

  // Starts the first owner. RESOURCE_EXHAUSTED if the system gives us no
  // thread. Without Start() the caller is the owner, as in a simulation.
  absl::Status Start();
  // Waits for the threads to end, after End().
  void Join() { threads_.Join(); }

  // The rest is for the owner.

  // Returns whether there is a standby, which it starts if need be. Without
  // one, a task that blocks holds up what else the owner does.
  bool HasStandby() {
    return ABSL_PREDICT_TRUE(has_standby_.load(std::memory_order_relaxed)) ||
           StartStandby();
  }
  // Returns whether a task that is posted now runs soon, and without danger:
  // not too many are waiting, and there is a standby.
  [[nodiscard]] bool TakesTask() {
    return waiting_.size() < kMostWaiting && HasStandby();
  }

  // Has `task` run between this round and the next one, or soon.
  void Post(ShortTask* task) { waiting_.PushBack(task); }
  // Whether no task waits.
  bool empty() const { return waiting_.empty(); }
  // Runs the tasks that wait, or some of them. Returns false if this thread is
  // no longer the owner, and must leave everything of the poller alone.
  [[nodiscard]] bool RunTasks();

  // The owner is about to sleep: so may the standby.
  void NoteSleep() {
    if (watched_) LeaveWatch();
  }

  // The owner ends: no standby is needed any more. REQUIRES: empty().
  void End();

 private:
  // The timer's state, as the owner and the standby agree upon.
  enum class Timer {
    kStopped,
    kWanted,  // The timer runs, for an owner that is awake.
    kLeft,    // The timer runs, and nobody needs it just now.
  };

  // Tasks in a turn: the replies of tasks that run one after the other go out
  // together, but others wait for the owner meanwhile.
  static constexpr int kTasksATurn = 16;
  // If more than this wait, tasks are better spread over other threads.
  static constexpr uint32_t kMostWaiting = 32;

  bool StartStandby();
  // The life of a standby, which may be an owner many times.
  void StandBy();
  // Makes this thread, which was the owner, the standby. Returns false if there
  // is one, or none is needed any more.
  [[nodiscard]] bool BecomeStandby();
  // Waits until this thread has become the owner. Returns false if that will
  // never be.
  [[nodiscard]] bool AwaitOwnership();
  void TakeOver(bool asleep);

  Ownership::State Lend() {
    if (ABSL_PREDICT_FALSE(!watched_)) StartWatch();
    return ownership_.Lend();
  }
  void StartWatch();
  void LeaveWatch();
  bool StopUnlessWanted();

  Ownership& ownership_;
  const std::function<void()> drive_;

  // The owner's.
  base::IntrusiveList<ShortTask> waiting_;
  ShortTask::Observer* observer_ = nullptr;  // The last begun task's.
  pid_t owner_ = 0;                          // The owner's number as a thread.
  bool watched_ = false;                     // Since it woke.
  int64_t watched_since_ns_ = 0;             // Since it woke last.
  int64_t timer_set_ns_ = 0;                 // When it last set the timer.
  absl::Time start_again_ = absl::InfinitePast();  // See StartStandby().

  // Made at once, if the process has a descriptor left: later it would be the
  // one that a server at its limit needs to refuse its clients.
  base::UniqueFd timer_;
  std::atomic<Timer> timer_state_{Timer::kStopped};
  // The timer has gone off while the owner slept: the owner wakes too seldom
  // for the timer to be left running.
  std::atomic<bool> wakes_seldom_{false};
  std::atomic<bool> ended_{false};
  std::atomic<bool> has_standby_{false};  // Written under the mutex.
  base::Mutex mutex_;
  // The owner, the standby, and those that tasks hold up.
  int count_ ABSL_GUARDED_BY(mutex_) = 1;

  base::ThreadGroup threads_;  // Last: they use all of the above.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_POLLING_POLLER_THREADS_H_
