// What the thread that drives a server's poller does between two rounds.

#ifndef VERBENA_TRANSPORT_CONNECTION_INTERLUDES_H_
#define VERBENA_TRANSPORT_CONNECTION_INTERLUDES_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "transport/base/mutex.h"
#include "transport/base/unique_fd.h"
#include "transport/connection/driver_seat.h"
#include "transport/connection/poller.h"

namespace verbena::transport {

// Something that should take microseconds, such as a handler of a user's. Owned
// by whoever adds it.
class InterludeTask {
 public:
  // Does it, outside of the poller. It may block: then another thread takes the
  // poller over. Ends with a PollerTask of its own posted to the poller, which
  // may destroy this as soon as somebody polls again. Returns how long it took,
  // as the processor's counter counts.
  virtual uint64_t RunInterlude() = 0;

  // On the poller: RunInterlude() was found asleep when it had taken about a
  // millisecond, and the poller was taken from its thread.
  virtual void OnBlocked() = 0;

  // On the poller, instead of RunInterlude(): what came before this task held
  // the thread up. It is to be done elsewhere.
  virtual void MoveElsewhere() = 0;

 protected:
  ~InterludeTask() = default;

 private:
  friend class Interludes;

  InterludeTask* next_ = nullptr;  // In the list.
};

// A list of tasks that the *driver*, the thread that polls, runs between two
// rounds, one at a time, and out of its seat: see DriverSeat. A *stand-in*, a
// second thread, takes the seat of a driver that one task keeps for half a
// millisecond to two, so a task that blocks, on whatever, holds the connections
// up for no longer, if the stand-in is given a processor. No task is taken on
// unless there is a stand-in.
//
// While tasks are run, the stand-in looks once a millisecond whether the same
// task still runs, woken by a timer that the driver has to neither set nor
// reset for each. It sleeps for good when the driver does.
//
// Confined to the poller, but for what the stand-in calls.
class Interludes {
 public:
  // `start_stand_in` starts a thread that calls Await(). Called with a lock
  // held; must not call back.
  Interludes(const Poller& poller, std::function<absl::Status()> start_stand_in)
      : poller_(poller), start_stand_in_(std::move(start_stand_in)) {}
  Interludes(const Interludes&) = delete;
  Interludes& operator=(const Interludes&) = delete;
  ~Interludes();

  // Has the task run between this round and the next one, or soon. Returns
  // false, and takes nothing, if that may take long: too much is waiting, or
  // there is no stand-in just now.
  [[nodiscard]] bool Add(InterludeTask* task) {
    if (ABSL_PREDICT_FALSE(listed_ == kMostListed || !HasStandIn())) {
      return false;
    }
    task->next_ = nullptr;
    (first_ == nullptr ? first_ : last_->next_) = task;
    last_ = task;
    ++listed_;
    return true;
  }

  bool empty() const { return first_ == nullptr; }

  // Runs what is in the list, or some of it. Returns false if this thread is no
  // longer the driver, and must leave everything of the poller alone.
  // REQUIRES: !empty().
  [[nodiscard]] bool Run();

  // To be called before the driver sleeps: so may the stand-in.
  void NoteSleep() {
    if (watched_) StopWatch();
  }

  // The thread that calls this is the driver now, for the first time.
  void NoteDriver();

  // The driver ends: nobody is needed to stand in any more.
  void End();

  // --- For threads that are not the driver ---

  // Makes this thread, which was the driver, the stand-in. False if there is
  // one, or none is needed any more.
  [[nodiscard]] bool BecomeStandIn();

  // By the stand-in: waits until this thread has become the driver. False if
  // that will never be.
  [[nodiscard]] bool Await();

 private:
  // Handlers that are so slow that more than this wait are better spread over
  // other threads.
  static constexpr int kMostListed = 32;

  bool HasStandIn() {
    return ABSL_PREDICT_TRUE(has_stand_in_.load(std::memory_order_relaxed)) ||
           StartStandIn();
  }
  bool StartStandIn();
  void StartWatch();
  void StopWatch();
  // What remains to be done by a thread that has just taken the seat from a
  // task, which sleeps or does not.
  void TakeOver(bool task_sleeps);

  const Poller& poller_;
  const std::function<absl::Status()> start_stand_in_;
  DriverSeat seat_;

  // The driver's. The list, oldest first; both null when it is empty.
  InterludeTask* first_ = nullptr;
  InterludeTask* last_ = nullptr;
  int listed_ = 0;                    // Tasks in it.
  InterludeTask* running_ = nullptr;  // The last one that was begun.
  pid_t driver_ = 0;                  // The driver's number as a thread.
  bool watched_ = false;              // The timer runs.
  absl::Time start_again_ = absl::InfinitePast();  // See StartStandIn().

  base::UniqueFd timer_;  // Made before the first stand-in starts.
  std::atomic<bool> ended_{false};
  std::atomic<bool> has_stand_in_{false};  // Written under the mutex.
  base::Mutex mutex_;
  // The driver, the stand-in, and those that tasks hold up.
  int threads_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CONNECTION_INTERLUDES_H_
