// A user's function that a thread of ours calls until its owner takes it back.

#ifndef VERBENA_RPC_RESOLVERS_REVOCABLE_CALLBACK_H_
#define VERBENA_RPC_RESOLVERS_REVOCABLE_CALLBACK_H_

#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"

namespace verbena::internal {

// Thread-safe.
template <typename Argument>
class RevocableCallback {
 public:
  explicit RevocableCallback(std::function<void(Argument)> function)
      : function_(std::move(function)) {}

  // Calls the function unless it was revoked. Holds no lock meanwhile, so that
  // the function may take its own. Not for two threads at once.
  void Call(Argument argument) {
    base::MutexLock lock(mutex_);
    if (revoked_) return;
    running_ = true;
    // Revoke() does not destroy the function while it runs.
    const std::function<void(Argument)>* const function = &function_;
    lock.Unlock();
    (*function)(std::forward<Argument>(argument));
    lock.Lock();
    running_ = false;
    returned_.NotifyAll();
  }

  // Destroys the function, which is not called after this. Waits only while it
  // runs. Not inside of it.
  void Revoke() {
    std::function<void(Argument)> unused;  // Destroyed without the lock.
    const base::MutexLock lock(mutex_);
    revoked_ = true;
    while (running_) returned_.Wait(mutex_);
    std::swap(unused, function_);
  }

  bool revoked() const {
    const base::MutexLock lock(mutex_);
    return revoked_;
  }

 private:
  mutable base::Mutex mutex_;
  base::CondVar returned_;
  std::function<void(Argument)> function_ ABSL_GUARDED_BY(mutex_);
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  bool revoked_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_RESOLVERS_REVOCABLE_CALLBACK_H_
