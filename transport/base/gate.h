// Holds threads of a test back until something has happened.

#ifndef VERBENA_TRANSPORT_BASE_GATE_H_
#define VERBENA_TRANSPORT_BASE_GATE_H_

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"

namespace verbena::base {

// Opens once; Wait() blocks until then. Thread-safe.
class Gate {
 public:
  void Open() {
    const MutexLock lock(mutex_);
    open_ = true;
    opened_.NotifyAll();
  }
  void Wait() {
    const MutexLock lock(mutex_);
    while (!open_) opened_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar opened_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace verbena::base

#endif  // VERBENA_TRANSPORT_BASE_GATE_H_
