// A second thread, which takes over from one that stays away for too long.

#ifndef VERBENA_TRANSPORT_CONNECTION_STAND_INS_H_
#define VERBENA_TRANSPORT_CONNECTION_STAND_INS_H_

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

namespace verbena::transport {

// A *driver*, the thread that has the seat (see DriverSeat), gets up now and
// then for an errand that should take microseconds, such as a handler or a
// callback of a user's. If the errand keeps it for half a millisecond to two, a
// *stand-in* takes the seat, if it is given a processor: so an errand that
// blocks, on whatever, holds up for no longer what else the driver does.
//
// While there are errands, the stand-in looks once a millisecond whether the
// same one still goes on, woken by a timer that the driver has to neither set
// nor reset for each. When the driver sleeps, the timer is left as it is: a
// driver that wakes again soon puts its next look off, so that it never comes.
// One that comes while the driver sleeps is the last: the stand-in stops the
// timer, and from then on the driver does so itself before it sleeps, until it
// is woken more often than that. So a driver that wakes and sleeps sets the
// timer once each time, or not at all, and twice where it is woken seldom;
// while it sleeps for long, so does the stand-in.
//
// The life of each thread of the group, once it is a stand-in:
//
//   while (stand_ins.Await(&asleep)) {
//     Drive();  // Until SitDown() has returned false, or End() was called.
//     if (!stand_ins.BecomeStandIn()) break;
//   }
class StandIns {
 public:
  // `start` starts a thread that calls Await(). Called with a lock held; must
  // not call back.
  explicit StandIns(std::function<absl::Status()> start);
  StandIns(const StandIns&) = delete;
  StandIns& operator=(const StandIns&) = delete;

  // --- For the driver ---

  // The thread that calls this is the driver, for the first time.
  void NoteDriver();

  // Whether somebody can stand in, for which a thread is started if need be.
  bool HasOne() {
    return ABSL_PREDICT_TRUE(has_one_.load(std::memory_order_relaxed)) ||
           StartOne();
  }

  // Gets up for an errand; returns what SitDown() needs.
  DriverSeat::Moment GetUp() {
    if (ABSL_PREDICT_FALSE(!watched_)) StartWatch();
    return seat_.GetUp();
  }
  // The errand is over. Returns false if this thread is no longer the driver,
  // and must leave everything of the driver's alone.
  [[nodiscard]] bool SitDown(DriverSeat::Moment away) {
    return seat_.SitDown(away);
  }

  // To be called before the driver sleeps: so may the stand-in.
  void NoteSleep() {
    if (watched_) LeaveWatch();
  }

  // The driver ends: nobody is needed to stand in any more.
  void End();

  // --- For threads that are not the driver ---

  // Makes this thread, which was the driver, the stand-in. False if there is
  // one, or none is needed any more.
  [[nodiscard]] bool BecomeStandIn();

  // By the stand-in: waits until this thread has become the driver, and says
  // whether the one before was found asleep in its errand. False if that will
  // never be.
  [[nodiscard]] bool Await(bool* asleep);

 private:
  // What the timer does, as the driver and the stand-in agree upon.
  enum class Timer {
    kStopped,
    kWanted,  // It runs, for a driver that is awake.
    kLeft,    // It runs, and nobody needs it just now.
  };

  bool StartOne();
  void StartWatch();
  void LeaveWatch();
  bool StopUnlessWanted();

  const std::function<absl::Status()> start_;
  DriverSeat seat_;

  // The driver's.
  pid_t driver_ = 0;              // Its number as a thread.
  bool watched_ = false;          // Since it woke.
  int64_t watched_since_ns_ = 0;  // Since it woke last.
  int64_t timer_set_ns_ = 0;      // When it last set the timer.
  absl::Time start_again_ = absl::InfinitePast();  // See StartOne().

  // Made at once, if the process has a descriptor left: later it would be the
  // one that a server at its limit needs to refuse its clients.
  base::UniqueFd timer_;
  std::atomic<Timer> timer_state_{Timer::kStopped};
  // The timer has gone off while the driver slept: it wakes too seldom for the
  // timer to be left running.
  std::atomic<bool> wakes_seldom_{false};
  std::atomic<bool> ended_{false};
  std::atomic<bool> has_one_{false};  // Written under the mutex.
  base::Mutex mutex_;
  // The driver, the stand-in, and those that errands hold up.
  int threads_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CONNECTION_STAND_INS_H_
