// Lets go of devices that were removed.

#ifndef VERBENA_TRANSPORT_VERBS_REMOVED_CONTEXTS_H_
#define VERBENA_TRANSPORT_VERBS_REMOVED_CONTEXTS_H_

#include <infiniband/verbs.h>

#include <map>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"

namespace verbena::transport {

// librdmacm opens a device once a process, and never closes it. The kernel
// finishes the removal of a device of rxe or siw only when no process has it
// open any more: until then `rdma link del` waits. So this takes the kernel's
// part away from the context of a removed device when its last completion
// queue is gone: its descriptors lead to /dev/null from then on. Verbs on the
// context fail or do nothing, and librdmacm may still close it.
//
// Thread-safe.
class RemovedContexts {
 public:
  // A completion queue of `context` was created, or was destroyed.
  void OnCqCreated(ibv_context* context);
  void OnCqDestroyed(ibv_context* context);
  // The device of `context` was removed. May be told several times.
  void OnRemoved(ibv_context* context);

 private:
  struct State {
    int queues = 0;
    bool removed = false;
  };

  // Lets go of the context, and forgets it, if it is time.
  void Look(ibv_context* context) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  base::Mutex mutex_;
  std::map<ibv_context*, State> contexts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_VERBS_REMOVED_CONTEXTS_H_
