// Locks that Clang checks: a field marked ABSL_GUARDED_BY(mutex_) can be
// touched only where mutex_ is held, or `./dev lint` fails.
//
//   base::Mutex mutex_;
//   base::CondVar changed_;  // `ready_` was set.
//   bool ready_ ABSL_GUARDED_BY(mutex_) = false;
//
//   void WaitUntilReady() {
//     const base::MutexLock lock(mutex_);
//     while (!ready_) changed_.Wait(mutex_);
//   }
//
// A condition is awaited in a loop as above and not by a lambda: the analysis
// does not know which locks are held when a lambda runs.
//
// These wrap the standard library's. The system's abseil is not built for
// ThreadSanitizer, which would report false races around absl::Mutex.

#ifndef VERBENA_TRANSPORT_BASE_MUTEX_H_
#define VERBENA_TRANSPORT_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace verbena::base {

// A mutual exclusion lock, neither recursive nor fair.
class ABSL_LOCKABLE Mutex {
 public:
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  bool try_lock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    return mutex_.try_lock();
  }

  // Tells the analysis, and checks nothing, that the caller holds the lock
  // where it cannot see so: in a lambda, or behind another name of the lock.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

 private:
  friend class CondVar;

  std::mutex mutex_;
};

// Holds a lock as long as it lives, but for the time between Unlock() and
// Lock(). Works with every lock that has the attributes, such as SpinLock.
// std::lock_guard has none: the analysis would not see that it locks.
//
// Confined to the thread that created it.
template <typename Lockable>
class ABSL_SCOPED_LOCKABLE ScopedLock {
 public:
  explicit ScopedLock(Lockable& lock) ABSL_EXCLUSIVE_LOCK_FUNCTION(lock)
      : lock_(lock) {
    lock_.lock();
  }

  ScopedLock(const ScopedLock&) = delete;
  ScopedLock& operator=(const ScopedLock&) = delete;

  ~ScopedLock() ABSL_UNLOCK_FUNCTION() {
    if (held_) lock_.unlock();
  }

  // Releases the lock before the end of the scope. REQUIRES: it is held.
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    held_ = false;
    lock_.unlock();
  }

  // Takes the lock again. REQUIRES: Unlock() was called.
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    lock_.lock();
    held_ = true;
  }

 private:
  Lockable& lock_;
  bool held_ = true;
};

using MutexLock = ScopedLock<Mutex>;

// Lets threads sleep until another one says that what they wait for may have
// changed. Each Wait releases the mutex while it sleeps, holds it again when it
// returns, and may return for no reason.
//
// Thread-safe. All threads that wait at one time must wait with the same mutex.
class CondVar {
 public:
  void Wait(Mutex& mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }

  // Returns false if it returns because `deadline`, by base::Now(), has passed.
  bool WaitUntil(Mutex& mutex, absl::Time deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const std::cv_status status = condition_.wait_until(
        lock, std::chrono::steady_clock::time_point(
                  std::chrono::nanoseconds(absl::ToUnixNanos(deadline))));
    lock.release();
    return status == std::cv_status::no_timeout;
  }

  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace verbena::base

#endif  // VERBENA_TRANSPORT_BASE_MUTEX_H_
