// How deep the queues of one device are to be.

#ifndef VERBENA_TRANSPORT_CONNECTION_QUEUE_PLAN_H_
#define VERBENA_TRANSPORT_CONNECTION_QUEUE_PLAN_H_

#include <cstdint>

namespace verbena::transport {

// What one poller's connections on one device may use of its queues, and the
// depths that follow from it.
struct QueuePlan {
  uint32_t connections = 0;
  uint32_t grown_receives = 0;  // That windows may have beyond the idle ones.
  uint32_t shared_sends = 0;    // See SharedSends.

  uint32_t Receives() const;  // That may be reserved at once.
  uint32_t SharedReceiveDepth() const;
  // One completion for everything that can be posted.
  uint32_t CompletionDepth() const;
};

// The plan for `connections` on a device with queues of at most so many
// receives and completions: what is shared shrinks first, then the number of
// connections. That is 0 if there is not even room for one.
QueuePlan PlanQueues(uint32_t connections, uint32_t max_shared_receives,
                     uint32_t max_completions);

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CONNECTION_QUEUE_PLAN_H_
