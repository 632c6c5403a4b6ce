#include "transport/soft/base/biased_lock.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "transport/base/check.h"
#include "transport/base/cycle_counter.h"

namespace verbena::soft {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif

long Membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0); }

// A section lasts a microsecond or less. A thread that has looked this often
// for nothing lets go of the processor, which the holder may be waiting for.
constexpr uint32_t kLooksBeforeYield = 32;

template <typename Done>
void SpinUntil(Done done) {
  for (uint32_t i = 0; !done(); ++i) {
    if (i < kLooksBeforeYield) {
      base::RelaxProcessor();
    } else {
      sched_yield();
    }
  }
}

}  // namespace

bool BiasedLock::CanBeOwned() {
  static const bool can =
      !kThreadSanitizer &&
      Membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
  return can;
}

void BiasedLock::FenceAllThreads() {
  if (CanBeOwned()) {
    CHECK_EQ(Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED), 0);
  } else {
    __sync_synchronize();
  }
}

// Never waits with ordinary_ held: if the holder that it waits for shares its
// processor, that would find the lock taken until the waiter's time is up.
void BiasedLock::LockSlow() {
  if (TryEnter()) return;
  waiters_.fetch_add(1, std::memory_order_relaxed);
  SpinUntil([this] { return TryEnter(); });
  waiters_.fetch_sub(1, std::memory_order_relaxed);
}

// A thread that tries again and again, such as a poller, is almost always
// inside, and would almost always be interrupted inside: a waiter on the same
// processor would never find the lock free. So it lets waiters go first. And it
// gives up the processor now and then, because the holder may be waiting for
// it.
bool BiasedLock::TryLockSlow() {
  // Relaxed, because the count only decides who goes first.
  if (waiters_.load(std::memory_order_relaxed) != 0) {
    sched_yield();
    return false;
  }
  if (TryEnter()) {
    failures_.store(0, std::memory_order_relaxed);
    return true;
  }
  const uint32_t failures = failures_.load(std::memory_order_relaxed) + 1;
  failures_.store(failures, std::memory_order_relaxed);
  if (failures % kLooksBeforeYield == 0) sched_yield();
  return false;
}

// Takes the ordinary lock, then the owner's right, and enters if the owner is
// outside. The right stays taken away even if the owner is still inside.
bool BiasedLock::TryEnter() {
  if (!ordinary_.try_lock()) return false;
  Revoke();
  if (!OwnerHasLeft()) {
    ordinary_.unlock();
    return false;
  }
  NoteUse();
  return true;
}

// Holds the ordinary lock for each look, because nobody but the owner is inside
// then.
void BiasedLock::WaitForHolder() {
  SpinUntil([this] {
    if (!ordinary_.try_lock()) return false;
    Flag* const owner = owner_.load(std::memory_order_relaxed);
    const bool free =
        OwnerHasLeft() && !owner->holds.load(std::memory_order_acquire);
    ordinary_.unlock();
    return free;
  });
}

// Afterwards nobody takes the lock but by way of ordinary_; see the class
// comment. The store needs no order of its own: FenceAllThreads() comes between
// it and the look at the owner's flag.
void BiasedLock::Revoke() {
  Flag* const owner = owner_.load(std::memory_order_relaxed);
  if (owner == &nobody_) return;
  owner_.store(&nobody_, std::memory_order_relaxed);
  FenceAllThreads();
  leaving_ = owner;
  last_user_ = 0;
}

// The acquire pairs with the release of unlock(): what the former owner has
// done inside is seen by whoever enters next.
bool BiasedLock::OwnerHasLeft() {
  if (leaving_ == nullptr) return true;
  if (leaving_->holds.load(std::memory_order_acquire)) return false;
  leaving_ = nullptr;
  return true;
}

// The calling thread has just taken the lock by way of ordinary_.
void BiasedLock::NoteUse() {
  held_by_ = nullptr;
  const uintptr_t thread = ThisThread();
  if (thread != last_user_) {
    last_user_ = thread;
    uses_in_a_row_ = 0;
    // A thread that gets here does not take itself for the owner any more.
    for (Flag& flag : flags_) {
      if (flag.user.load(std::memory_order_relaxed) == thread) {
        flag.in_use = false;
      }
    }
  }
  if (++uses_in_a_row_ == kUsesToOwn && CanBeOwned()) BecomeOwner(thread);
}

// Gives the thread the flag it had before, or one that no thread still takes
// for its own.
void BiasedLock::BecomeOwner(uintptr_t thread) {
  Flag* chosen = nullptr;
  for (Flag& flag : flags_) {
    if (flag.user.load(std::memory_order_relaxed) == thread) {
      chosen = &flag;
      break;
    }
    if (!flag.in_use && chosen == nullptr) chosen = &flag;
  }
  if (chosen == nullptr) return;
  chosen->in_use = true;
  chosen->user.store(thread, std::memory_order_relaxed);
  owner_.store(chosen, std::memory_order_release);
}

}  // namespace verbena::soft
