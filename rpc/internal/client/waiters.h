// The threads in blocking calls that do not poll, because another thread does.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_WAITERS_H_
#define VERBENA_RPC_INTERNAL_CLIENT_WAITERS_H_

#include <atomic>
#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "transport/base/counter.h"
#include "transport/base/intrusive_list.h"
#include "transport/base/mutex.h"
#include "transport/polling/ownership.h"
#include "transport/polling/spin_policy.h"

namespace verbena::internal {

// The means by which the thread of a blocking call learns that its call has
// ended. Lives on the stack of that thread. Only finished() is for others
// than Waiters.
class Waiter : public base::ListLink<Waiter> {
 public:
  bool finished() const {
    return state_.load(std::memory_order_acquire) == State::kFinished;
  }

 private:
  friend class Waiters;

  enum class State : uint8_t {
    kOpen,      // The thread polls, or looks here again and again.
    kListed,    // It is in the list of waiters, and may sleep.
    kFinished,  // The call has ended.
  };

  // Becomes and ceases to be kListed under the mutex of Waiters. The thread
  // that sets kFinished does not touch the waiter afterwards, unless it was
  // kListed before.
  std::atomic<State> state_{State::kOpen};

  // The next two are for the waiting thread alone.
  bool ever_listed_ = false;
  std::optional<transport::SpinPolicy::Wait> wait_;  // Once it has spun.

  // The mutex of Waiters protects the rest, which is of use once the waiter was
  // listed.
  bool woken_ = false;  // The thread was told to try the ownership.
  // Made when the waiter is first listed: most never are.
  std::optional<base::CondVar> changed_;
};

// A thread that finds the poller's ownership taken waits here: for a while it
// looks whether its call has ended or the ownership is free, then it sleeps
// until the one or the other. The owner wakes it: by Finish() when its call has
// ended, or by WakeOne() after the ownership was released.
//
// Thread-safe, unless a comment says otherwise.
class Waiters {
 public:
  // A waiting thread spins for up to `spin_budget` before it sleeps. It stops
  // earlier if `polls`, which counts the polls of the owner of `ownership`,
  // does not change. Both must outlive this.
  Waiters(const transport::Ownership& ownership, const base::Counter& polls,
          absl::Duration spin_budget)
      : ownership_(ownership), polls_(polls), spin_(spin_budget) {}
  Waiters(const Waiters&) = delete;
  Waiters& operator=(const Waiters&) = delete;

  // Waits until the call is finished (returns true) or it is worth trying the
  // ownership (false). By the waiting thread, without the ownership.
  bool WaitForTurn(Waiter* waiter);

  // The waiting thread has the ownership now, and does not wait here any more.
  void Leave(Waiter* waiter);

  // The call of `waiter` has ended: its thread may go, and destroy it. By the
  // owner, when that is not the waiting thread.
  void Finish(Waiter* waiter);
  // Does so for the waiting thread itself, while it holds the ownership: nobody
  // else looks at the waiter then.
  static void FinishOwn(Waiter* waiter) {
    waiter->state_.store(Waiter::State::kFinished, std::memory_order_relaxed);
  }

  // Whether anybody sleeps here, or is about to. Sequentially consistent, so
  // that of a thread that releases the ownership and looks here, and one that
  // comes here and then tries the ownership once more, one sees the other.
  bool any() const { return count_.load(std::memory_order_seq_cst) > 0; }
  // Has one thread that was not woken yet try the ownership.
  void WakeOne();

 private:
  enum class Spin { kFinished, kTryOwnership, kSleep };
  Spin SpinForTurn(Waiter* waiter);
  void Remove(Waiter* waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const transport::Ownership& ownership_;
  const base::Counter& polls_;
  transport::SpinPolicy spin_;

  std::atomic<int> count_{0};  // Elements of list_.
  base::Mutex mutex_;
  base::IntrusiveList<Waiter> list_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_WAITERS_H_
