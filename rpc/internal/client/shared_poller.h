// A poller that many channels share, polled by the threads that wait for calls.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_SHARED_POLLER_H_
#define VERBENA_RPC_INTERNAL_CLIENT_SHARED_POLLER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/internal/client/background_thread.h"
#include "rpc/internal/client/poller_timer.h"
#include "rpc/internal/client/waiters.h"
#include "transport/client/client_poller.h"
#include "transport/polling/ownership.h"
#include "transport/polling/poller.h"
#include "transport/polling/poller_counters.h"
#include "transport/polling/poller_threads.h"
#include "transport/polling/spin_policy.h"
#include "transport/polling/task.h"

namespace verbena::internal {

// Has the connections of any number of channels polled, by one thread at a
// time: the holder of the poller's ownership. A thread in a blocking call takes
// the role if it is free, and polls until its call has ended. If the ownership
// is taken, the thread posts its call to the holder and waits (see Waiters)
// until the call has ended or the holder leaves. The background thread polls
// while something is pending that no thread waits for, and watches otherwise.
// It also runs tasks that may block, such as callbacks, without the ownership.
//
// So that no work is forgotten, a thread that releases the ownership looks at
// the posted tasks and at the waiters afterwards. A thread that posts or waits
// tries the ownership afterwards. See transport::Ownership.
//
// SharedPoller knows nothing of calls, addresses and channels.
//
// Functions are for any thread, unless they stand under "With the
// ownership held".
class SharedPoller {
 public:
  // Polling threads spin for up to `spin_budget` before they sleep. Fails with
  // RESOURCE_EXHAUSTED where there is no descriptor or no thread left.
  static absl::StatusOr<std::unique_ptr<SharedPoller>> Create(
      absl::Duration spin_budget);
  // Creates one without a thread, for a simulation, which calls Step() again
  // and again. Nobody may block on it: there must be no blocking call, and
  // the last reference to a channel must be dropped in a task of its
  // background thread.
  static absl::StatusOr<std::unique_ptr<SharedPoller>> CreateStepped(
      uint64_t seed);
  SharedPoller(const SharedPoller&) = delete;
  SharedPoller& operator=(const SharedPoller&) = delete;
  // Waits for connections that are closing. REQUIRES: no other thread uses it,
  // nor will; every connection was closed, no timer is set, no task waits,
  // and it is not pinned. Waits for the task that runs, so not inside of one.
  ~SharedPoller();

  // The poller's counters. Any thread.
  const transport::PollerCounters& counters() const {
    return transport_.counters();
  }

  transport::Ownership& ownership() ABSL_LOCK_RETURNED(ownership_) {
    return ownership_;
  }

  // Has `task` run by the owner. Returns true if that is now this
  // thread, which must then release it.
  [[nodiscard]] bool Post(transport::Task* task)
      ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true, ownership_);
  // As Post(), but never runs a task inside this function: if nobody holds the
  // ownership, the background thread is told to take it.
  void PostFromOutside(transport::Task* task);

  // Waits without the ownership until `waiter` is finished (returns true) or it
  // is worth trying the ownership.
  bool WaitForTurn(Waiter* waiter) { return waiters_.WaitForTurn(waiter); }

  // Has `task`, which may block, run by the background thread.
  void PostInBackground(transport::ShortTask* task) { background_.Post(task); }
  // Whether the calling thread is in such a task of this.
  bool RunsTask() const { return background_.RunsTask(); }
  // Whether the calling thread is in a callback that was called where the reply
  // was parsed: then it has the ownership, and must not wait.
  bool RunsCallbackOfRound() const {
    return ownership_.HeldByThisThread() && RunsTask();
  }

  // Keeps this alive until Unpin(), though no channel uses it: a task of a
  // channel that is gone waits or runs.
  void Pin() { pins_.fetch_add(1, std::memory_order_relaxed); }
  void Unpin() { pins_.fetch_sub(1, std::memory_order_release); }
  bool pinned() const { return pins_.load(std::memory_order_acquire) > 0; }

  // Returns a seed for a channel's random values. In a simulation, in which
  // Seed() must have been called, it is the same in every run.
  uint64_t NewSeed();
  void Seed(uint64_t seed) { next_seed_ = seed; }

  // Runs what there is to run now. Returns whether there was something.
  bool Step() { return background_.Step(); }
  // Returns the time of the next thing to run if nothing happens before. To be
  // called between two steps.
  absl::Time NextStep();

  // --- With the ownership held ---

  // Makes the channels' connections.
  transport::ClientPoller& client_poller() {
    ownership_.AssertHeld();
    return *client_poller_;
  }

  // Polls until `waiter` is finished, and releases the ownership.
  void PollAndRelease(Waiter* waiter) ABSL_UNLOCK_FUNCTION(ownership_);

  // Releases the ownership, and sees to it that what is left to do gets done.
  void Release() ABSL_UNLOCK_FUNCTION(ownership_) {
    ReleaseUnless(/*watched=*/false);
  }

  // The timer goes off at `time` or earlier.
  void LowerTimer(PollerTimer* timer, absl::Time time);
  void CancelTimer(PollerTimer* timer);

  // The call that `waiter` waits for has ended.
  void Finish(Waiter* waiter);

  // Calls `callback` at once, in the middle of a round, if it promises not to
  // block: returns false, and does nothing, outside of a round, where the
  // caller may be a user's thread that does not expect it.
  template <typename Callback>
  bool CallInRound(Callback callback) {
    ownership_.AssertHeld();
    if (!transport_.in_round()) return false;
    const BackgroundThread::TaskScope scope(&background_);
    callback();
    return true;
  }

  // A call begins, of whichever kind.
  void NoteCall() {
    ownership_.AssertHeld();
    ++started_calls_;
  }
  // Something is pending until RemovePending() that no thread waits for, so
  // that somebody must poll: a call that ends in a callback, or an attempt to
  // connect.
  void AddPending() {
    ownership_.AssertHeld();
    ++pending_;
  }
  void RemovePending() {
    ownership_.AssertHeld();
    --pending_;
  }

  // The time, as of some microseconds ago.
  absl::Time Now() {
    ownership_.AssertHeld();
    transport().RefreshNow();
    return transport().now();
  }

 private:
  friend class BackgroundThread;

  explicit SharedPoller(std::unique_ptr<transport::ClientPoller> client_poller,
                        absl::Duration spin_budget);

  // Any thread; most of it is for the owner.
  transport::Poller& transport() const { return transport_; }

  // Called once in some polls that find nothing. Returns whether the thread is
  // to go on polling; if not, it should sleep.
  bool KeepPolling(transport::SpinPolicy::Wait* wait)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  void RunTimers(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  // Returns the time at which the next timer goes off.
  absl::Time NextTimer() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_) {
    return timers_.empty() ? absl::InfiniteFuture()
                           : timers_.begin()->first.first;
  }
  void SleepAsHolder(const Waiter& waiter)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  // `watched`: the background thread is about to wait for events, and so need
  // not be told of what is pending.
  void ReleaseUnless(bool watched) ABSL_UNLOCK_FUNCTION(ownership_);

  const std::unique_ptr<transport::ClientPoller> client_poller_;
  // The client_poller_'s.
  transport::Poller& transport_;
  transport::SpinPolicy spin_;

  transport::Ownership& ownership_;  // transport_'s.
  Waiters waiters_;
  std::atomic<int> pins_{0};
  std::optional<uint64_t> next_seed_;  // Only of a simulation.

  // The holder's own call, if it is in one and polls.
  Waiter* own_ ABSL_GUARDED_BY(ownership_) = nullptr;
  int pending_ ABSL_GUARDED_BY(ownership_) = 0;
  // Calls that have ever begun.
  uint64_t started_calls_ ABSL_GUARDED_BY(ownership_) = 0;
  // The timers that are set, by PollerTimer::due_, and those of one time in the
  // order in which they were set.
  std::map<std::pair<absl::Time, uint64_t>, PollerTimer*> timers_
      ABSL_GUARDED_BY(ownership_);
  uint64_t next_timer_order_ ABSL_GUARDED_BY(ownership_) = 0;

  BackgroundThread background_;  // Last: it uses all of the above.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_SHARED_POLLER_H_
