// Owner of a completion queue.

#ifndef VERBENA_TRANSPORT_VERBS_COMPLETION_QUEUE_H_
#define VERBENA_TRANSPORT_VERBS_COMPLETION_QUEUE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "transport/verbs/completion_channel.h"
#include "transport/verbs/verbs_handle.h"
#include "transport/verbs/verbs_ops.h"

namespace verbena::transport {

// Owns an ibv_cq: the queue in which the device reports finished work requests.
// The context, and the channel if there is one, must outlive it; every queue
// pair attached to it must be gone before it.
//
// Not thread-safe: one thread at a time, normally the poller that drains it.
class CompletionQueue : public VerbsHandle<ibv_cq, &VerbsOps::destroy_cq> {
 public:
  // `depth` is its capacity in completions. Must be at least the sum of the
  // send and receive depths of all attached queues: an overrun puts every
  // attached queue pair into the error state. `channel` is where completion
  // events go; null for a queue that is only ever polled.
  static absl::StatusOr<CompletionQueue> Create(const VerbsOps& ops,
                                                ibv_context* context, int depth,
                                                CompletionChannel* channel);

  CompletionQueue() = default;

  // Moves the oldest completions into `completions` and returns how many; zero
  // when the queue is empty. A negative result means that the device has failed
  // the queue for good and every attached queue pair must be torn down.
  int Poll(absl::Span<ibv_wc> completions) {
    return ibv_poll_cq(get(), static_cast<int>(completions.size()),
                       completions.data());
  }

  // Asks for one event at the next completion. Poll() once more after this: a
  // completion that arrived before the call raises no event.
  absl::Status RequestNotify();

 private:
  using VerbsHandle::VerbsHandle;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_VERBS_COMPLETION_QUEUE_H_
