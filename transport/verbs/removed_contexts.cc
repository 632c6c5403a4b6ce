#include "transport/verbs/removed_contexts.h"

#include <fcntl.h>
#include <unistd.h>

#include "transport/base/unique_fd.h"

namespace verbena::transport {

void RemovedContexts::OnCqCreated(ibv_context* context) {
  const base::MutexLock lock(mutex_);
  ++contexts_[context].queues;
}

void RemovedContexts::OnCqDestroyed(ibv_context* context) {
  const base::MutexLock lock(mutex_);
  --contexts_[context].queues;
  Look(context);
}

void RemovedContexts::OnRemoved(ibv_context* context) {
  const base::MutexLock lock(mutex_);
  contexts_[context].removed = true;
  Look(context);
}

// The numbers of the descriptors stay taken, because the context still has
// them, and will close them if it is closed.
void RemovedContexts::Look(ibv_context* context) {
  const State state = contexts_[context];
  if (state.queues > 0) return;
  contexts_.erase(context);
  if (!state.removed) return;
  const base::UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing.valid()) return;
  for (const int fd : {context->cmd_fd, context->async_fd}) {
    if (fd >= 0) ::dup3(nothing.get(), fd, O_CLOEXEC);
  }
}

}  // namespace verbena::transport
