// The two locks of a connection manager, as the thread annotations name them.
//
// The locks protect fields of identifiers and event channels. These have no
// name for the mutexes of their manager, so the annotations name each lock by a
// constant. All managers share the constants, because identifiers of different
// managers never meet.

#ifndef VERBENA_TRANSPORT_SOFT_CM_CM_LOCKS_H_
#define VERBENA_TRANSPORT_SOFT_CM_CM_LOCKS_H_

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"

namespace verbena::soft {

class ABSL_LOCKABLE LockName {};

// Protects what an identifier is and does: its state, sockets and memberships.
// One lock serves all identifiers of the process, because connecting is rare.
// It is taken before kEvents.
inline constexpr LockName kEndpoints;

// Protects the contents of event channels, and the counts of an identifier's
// events. Nothing else is locked while it is held.
inline constexpr LockName kEvents ABSL_ACQUIRED_AFTER(kEndpoints);

// The mutexes themselves, so that neither is taken for the other.
class EndpointsMutex final : public base::Mutex {};
class EventsMutex final : public base::Mutex {};

// Holds a mutex as long as it lives. The thread analysis does not see it.
class UnnamedLock {
 public:
  explicit UnnamedLock(base::Mutex& mutex) ABSL_NO_THREAD_SAFETY_ANALYSIS
      : mutex_(mutex) {
    mutex_.lock();
  }
  UnnamedLock(const UnnamedLock&) = delete;
  UnnamedLock& operator=(const UnnamedLock&) = delete;
  ~UnnamedLock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.unlock(); }

  // Releases the mutex while it sleeps, and may return for no reason.
  void Wait(base::CondVar& changed) const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    changed.Wait(mutex_);
  }

 private:
  base::Mutex& mutex_;
};

// Holds the manager's mutex of that name. Confined to the thread that made it.
struct ABSL_SCOPED_LOCKABLE EndpointsLock final : UnnamedLock {
  explicit EndpointsLock(EndpointsMutex& mutex)
      ABSL_EXCLUSIVE_LOCK_FUNCTION(kEndpoints)
      : UnnamedLock(mutex) {}
  ~EndpointsLock() ABSL_UNLOCK_FUNCTION() = default;
};

struct ABSL_SCOPED_LOCKABLE EventsLock final : UnnamedLock {
  explicit EventsLock(EventsMutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(kEvents)
      : UnnamedLock(mutex) {}
  ~EventsLock() ABSL_UNLOCK_FUNCTION() = default;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CM_CM_LOCKS_H_
