// A lock for data paths.

#ifndef VERBENA_TRANSPORT_BASE_SPIN_LOCK_H_
#define VERBENA_TRANSPORT_BASE_SPIN_LOCK_H_

#include <sched.h>

#include <atomic>

#include "absl/base/thread_annotations.h"
#include "transport/base/cycle_counter.h"

namespace verbena::base {

// A mutual exclusion lock for sections of a microsecond or less. Yields the
// processor when it has to wait for long, because its holder may be waiting for
// this very processor. ScopedLock in mutex.h holds it for a scope.
//
// Thread-safe; not recursive, not fair.
class ABSL_LOCKABLE SpinLock {
 public:
  bool try_lock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    return !locked_.load(std::memory_order_relaxed) &&
           !locked_.exchange(true, std::memory_order_acquire);
  }

  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    while (!try_lock()) WaitSlow();
  }

  void unlock() ABSL_UNLOCK_FUNCTION() {
    locked_.store(false, std::memory_order_release);
  }

 private:
  void WaitSlow() {
    for (int i = 0; i < 200; ++i) {
      if (!locked_.load(std::memory_order_relaxed)) return;
      RelaxProcessor();
    }
    sched_yield();
  }

  std::atomic<bool> locked_{false};
};

}  // namespace verbena::base

#endif  // VERBENA_TRANSPORT_BASE_SPIN_LOCK_H_
