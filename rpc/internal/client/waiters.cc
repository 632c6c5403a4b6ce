#include "rpc/internal/client/waiters.h"

#include "transport/base/clock.h"
#include "transport/base/cycle_counter.h"

namespace verbena::internal {
namespace {

// Looks at the waiter between two looks at the clock.
constexpr uint32_t kLooksPerClock = 64;

// Looks at the clock, a microsecond or two apart, between which the holder of
// the ownership has not polled, after which it counts as one that does not run.
constexpr int kIdleLooks = 4;

}  // namespace

// Looks at the waiter and the ownership without a lock, and now and then at the
// clock. Gives up when spinning no longer pays, or when the owner seems not to
// run.
Waiters::Spin Waiters::SpinForTurn(Waiter* waiter) {
  transport::SpinPolicy::Wait& wait = waiter->wait_.has_value()
                                          ? *waiter->wait_
                                          : waiter->wait_.emplace(&spin_);
  uint64_t polls = polls_.value();
  int idle_looks = 0;
  for (uint32_t looks = 1;; ++looks) {
    // Read once: a call that has ended wins over a free ownership.
    const bool finished = waiter->finished();
    if (finished || !ownership_.Held()) {
      wait.Found();
      return finished ? Spin::kFinished : Spin::kTryOwnership;
    }
    if (looks % kLooksPerClock == 0) {
      // With more threads than processors the holder may be waiting for this
      // very one: then to spin is to wait for oneself.
      const uint64_t polls_now = polls_.value();
      idle_looks = polls_now == polls ? idle_looks + 1 : 0;
      polls = polls_now;
      if (idle_looks == kIdleLooks || !wait.Look(base::Now())) {
        return Spin::kSleep;
      }
    }
    // Leaves the core's resources to a hyper-thread beside it, which may be the
    // owner.
    base::RelaxProcessor();
  }
}

// Spins first. Then enters the waiter in the list, and has the caller try the
// ownership once more. Sleeps at the next call.
bool Waiters::WaitForTurn(Waiter* waiter) {
  // Relaxed: only this thread sets kListed. If Finish() has replaced it by now,
  // the mutex below orders the rest.
  if (waiter->state_.load(std::memory_order_relaxed) !=
      Waiter::State::kListed) {
    const Spin spin = SpinForTurn(waiter);
    if (spin == Spin::kTryOwnership) return false;
    // If it was ever listed, it may still be so: see Finish().
    if (spin == Spin::kFinished && !waiter->ever_listed_) return true;
  }
  const base::MutexLock lock(mutex_);
  // Fails if the call has ended, or the waiter is in the list already. Either
  // this or the exchange in Finish() comes first, and the other sees it.
  auto state = Waiter::State::kOpen;
  if (waiter->state_.compare_exchange_strong(state, Waiter::State::kListed)) {
    // The ownership may have become free before anybody could know that we
    // wait: let the caller try once more.
    if (!waiter->ever_listed_) waiter->changed_.emplace();
    waiter->ever_listed_ = true;
    list_.PushBack(waiter);
    count_.fetch_add(1, std::memory_order_seq_cst);
    return false;
  }
  // Not by state_: Finish() sets it before it has the mutex, and still needs
  // the waiter then.
  while (waiter->is_linked() && !waiter->woken_) waiter->changed_->Wait(mutex_);
  waiter->woken_ = false;
  if (waiter->wait_.has_value()) waiter->wait_->Woke(base::Now());
  return !waiter->is_linked();
}

void Waiters::Leave(Waiter* waiter) {
  // Its thread holds the ownership, so nobody finishes the call meanwhile.
  if (waiter->state_.load(std::memory_order_relaxed) !=
      Waiter::State::kListed) {
    return;
  }
  const base::MutexLock lock(mutex_);
  waiter->state_.store(Waiter::State::kOpen, std::memory_order_relaxed);
  Remove(waiter);
}

void Waiters::Finish(Waiter* waiter) {
  // The last touch of a waiter that is not in the list: its thread may return
  // at once.
  const auto before = waiter->state_.exchange(Waiter::State::kFinished);
  if (before != Waiter::State::kListed) return;
  const base::MutexLock lock(mutex_);
  Remove(waiter);
  waiter->changed_->NotifyOne();  // *waiter is gone once mutex_ is free.
}

void Waiters::Remove(Waiter* waiter) {
  list_.Remove(waiter);
  // As in WaitForTurn(): see any().
  count_.fetch_sub(1, std::memory_order_seq_cst);
}

// Skips threads that were told already and have not run yet. Otherwise several
// releases in a row would wake the first one again and again.
void Waiters::WakeOne() {
  const base::MutexLock lock(mutex_);
  Waiter* waiter = list_.front();
  while (waiter != nullptr && waiter->woken_) waiter = list_.Next(waiter);
  if (waiter == nullptr) return;
  waiter->woken_ = true;
  waiter->changed_->NotifyOne();
}

}  // namespace verbena::internal
