// Who polls: whoever waits.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_SHARED_POLLER_H_
#define VERBENA_RPC_INTERNAL_CLIENT_SHARED_POLLER_H_

#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "rpc/internal/client/background_thread.h"
#include "rpc/internal/client/poller_sleep.h"
#include "rpc/internal/client/poller_user.h"
#include "rpc/internal/client/polling_role.h"
#include "rpc/internal/client/waiters.h"
#include "transport/base/mpsc_queue.h"
#include "transport/connection/client_connection.h"
#include "transport/connection/poller_task.h"
#include "transport/connection/spin_policy.h"

namespace verbena::internal {

// Has a connection polled, by one thread at a time: the holder of the polling
// role. A thread in a blocking call takes the role if it is free, and polls
// until its call has ended. If the role is taken, the thread posts its call to
// the holder and waits (see Waiters) until the call has ended or the holder
// leaves. The background thread polls while callbacks are owed and nobody else
// does, and watches the connection while there is nothing to wait for.
//
// The rule that no work is forgotten: who leaves the role looks at the queue of
// posted tasks and at the waiters afterwards; who posts or waits tries the role
// afterwards. See PollingRole.
//
// It knows nothing of calls, addresses and channels. Today it polls one
// connection, which brings its own transport poller, for one user. Neither a
// call nor a subchannel would notice if there were more: what they need of it
// are tasks, a timer and a count of what is owed to callbacks.
//
// Functions are for any thread, unless they stand under "With the role held".
// Destroy it after Stop().
class SharedPoller {
 public:
  // Polling threads spin for up to `spin_budget` before they sleep. `user` must
  // outlive this.
  SharedPoller(absl::Duration spin_budget, PollerUser* user)
      : user_(user),
        spin_(spin_budget),
        waiters_(role_, spin_budget),
        background_(this, &spin_, user) {}
  SharedPoller(const SharedPoller&) = delete;
  SharedPoller& operator=(const SharedPoller&) = delete;
  ~SharedPoller();

  PollingRole& role() ABSL_LOCK_RETURNED(role_) { return role_; }

  // Whether this thread polls, so that whatever runs has been called by us.
  bool PolledByThisThread() const { return role_.HeldByThisThread(); }

  // Has `task` run by the holder of the role. Returns true if that is now this
  // thread, which must then release it.
  [[nodiscard]] bool Post(transport::PollerTask* task)
      ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true, role_);
  // The same, but never runs a task inside this function: if nobody holds the
  // role, the background thread is told to take it.
  void PostFromOutside(transport::PollerTask* task);

  // Waits without the role until `waiter` is finished (returns true) or it is
  // worth trying the role.
  bool WaitForTurn(Waiter* waiter) { return waiters_.WaitForTurn(waiter); }

  // Has the background thread look whether there is something to do.
  void NotifyBackground() { background_.Notify(); }

  // Ends the background thread, whose last act is PollerUser::OnStop().
  // REQUIRES: no thread waits.
  void Stop() { background_.Stop(); }

  // --- With the role held ---

  // Polls until `waiter` is finished or there is nothing to poll, and releases
  // the role. Returns whether it is finished.
  bool PollAndRelease(Waiter* waiter) ABSL_UNLOCK_FUNCTION(role_);

  // Releases the role, and sees to it that what is left to do gets done.
  void Release() ABSL_UNLOCK_FUNCTION(role_) {
    ReleaseUnless(/*watched=*/false);
  }

  // From now on `connection` is polled; null for none. REQUIRES: there was none
  // before, or there is to be none, and !in_transport().
  void Drive(transport::ClientConnection* connection);

  // Whether `connection` is of no use any more: it is lost, or its server has
  // taken leave and the last call has ended.
  static bool IsOver(const transport::ClientConnection& connection) {
    return connection.failed() ||
           (connection.draining() && connection.open_calls() == 0);
  }

  // PollerUser::OnTimer() is called at `time` or earlier, and not again unless
  // somebody asks for it again.
  void LowerTimer(absl::Time time);

  // The call that `waiter` waits for has ended.
  void Finish(Waiter* waiter);

  // Counts the calls that begin. For one that ends in a callback somebody must
  // poll until CallbackCalled().
  void CallStarted(bool owes_callback) {
    role_.AssertHeld();
    ++started_calls_;
    owed_callbacks_ += owes_callback ? 1 : 0;
  }
  void CallbackCalled() {
    role_.AssertHeld();
    --owed_callbacks_;
  }

  // Whether a callback of the user's may be called from where we stand: in the
  // middle of polling, but not in a function that starts a call.
  bool may_call_back() const {
    role_.AssertHeld();
    return may_call_back_;
  }
  // Returns it, and sets it to `may`.
  bool SetMayCallBack(bool may) {
    role_.AssertHeld();
    return std::exchange(may_call_back_, may);
  }
  // Has `task` run as soon as callbacks may be called.
  void RunWhenPolling(transport::PollerTask* task) { callbacks_.Push(task); }

  // Whether the connection is below us on the stack, so that it must stay.
  bool in_transport() const {
    role_.AssertHeld();
    return in_transport_;
  }
  // Returns it, and sets it to `in`, around what enters the connection from
  // outside the polling loop.
  bool SetInTransport(bool in) {
    role_.AssertHeld();
    return std::exchange(in_transport_, in);
  }

  // The time: reads the clock only where the transport has not done so just
  // now.
  absl::Time Now();

  // Runs all that is posted, and calls the callbacks that are due. For
  // OnStop().
  void RunAll();

 private:
  friend class BackgroundThread;

  // Polls once; returns how many things were handled. The connection may be
  // gone afterwards.
  int Poll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
  int PollUnchecked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
  int RunPosted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
  int RunCallbacks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
  // What is done once in some polls that find nothing. Returns whether the
  // thread is to go on; if not, it should sleep at the connection, which there
  // is then.
  bool KeepPolling(transport::SpinPolicy::Wait* wait)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
  void RunTimer(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
  void SleepAsHolder(const Waiter& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
  // Arms what wakes a sleeper. Returns false if there was something to do
  // instead.
  bool PrepareSleep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
  void CheckConnection() ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {
    if (__builtin_expect(connection_ != nullptr && !connection_->usable(), 0)) {
      user_->OnConnectionUnusable();
    }
  }
  // `watched`: the background thread is about to wait for events, and so need
  // not be told of what is open.
  void ReleaseUnless(bool watched) ABSL_UNLOCK_FUNCTION(role_);

  PollerUser* const user_;
  transport::SpinPolicy spin_;

  PollingRole role_;
  base::MpscQueue<transport::PollerTask> posted_;
  PollerSleep sleep_;
  Waiters waiters_;

  // What is polled; null if there is nothing.
  transport::ClientConnection* connection_ ABSL_GUARDED_BY(role_) = nullptr;
  // The holder's own call, if it is in one and polls.
  Waiter* own_ ABSL_GUARDED_BY(role_) = nullptr;
  // Tasks that wait until callbacks may be called. Pushed with the role held.
  base::MpscQueue<transport::PollerTask> callbacks_;
  bool may_call_back_ ABSL_GUARDED_BY(role_) = false;
  bool in_transport_ ABSL_GUARDED_BY(role_) = false;
  // Calls that have begun and whose callback was not called yet.
  int owed_callbacks_ ABSL_GUARDED_BY(role_) = 0;
  // Calls that have ever begun.
  uint64_t started_calls_ ABSL_GUARDED_BY(role_) = 0;
  // When OnTimer() is due.
  absl::Time timer_ ABSL_GUARDED_BY(role_) = absl::InfiniteFuture();

  BackgroundThread background_;  // Last: it uses all of the above.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_SHARED_POLLER_H_
