// A lock for data paths.

#ifndef VERBENA_TRANSPORT_BASE_SPIN_LOCK_H_
#define VERBENA_TRANSPORT_BASE_SPIN_LOCK_H_

#include <sched.h>

#include <atomic>

namespace verbena::base {

// A mutual exclusion lock for sections of a microsecond or less. Yields the
// processor when it has to wait for long, because its holder may be waiting for
// this very processor. Works with std::lock_guard and std::unique_lock.
//
// Thread-safe; not recursive, not fair.
class SpinLock {
 public:
  bool try_lock() {
    return !locked_.load(std::memory_order_relaxed) &&
           !locked_.exchange(true, std::memory_order_acquire);
  }

  void lock() {
    while (!try_lock()) WaitSlow();
  }

  void unlock() { locked_.store(false, std::memory_order_release); }

 private:
  void WaitSlow() {
    for (int i = 0; i < 200; ++i) {
      if (!locked_.load(std::memory_order_relaxed)) return;
      __builtin_ia32_pause();
    }
    sched_yield();
  }

  std::atomic<bool> locked_{false};
};

}  // namespace verbena::base

#endif  // VERBENA_TRANSPORT_BASE_SPIN_LOCK_H_
