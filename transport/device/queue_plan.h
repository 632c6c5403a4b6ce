// How deep the queues of one device are to be.

#ifndef VERBENA_TRANSPORT_DEVICE_QUEUE_PLAN_H_
#define VERBENA_TRANSPORT_DEVICE_QUEUE_PLAN_H_

#include <cstdint>

namespace verbena::transport {

// Whether all connections take their receives from one queue, or each has a
// queue of its own, with its own memory or with memory that all share.
enum class ReceiveQueues { kOneForAll, kOneEach, kOneEachOfSharedMemory };

// The use that one poller's connections on one device may make of its queues,
// and the depths that follow from it.
struct QueuePlan {
  ReceiveQueues receive_queues = ReceiveQueues::kOneForAll;
  uint32_t connections = 0;
  // Receives that windows may have beyond the idle ones: as reserved or, with
  // kOneEachOfSharedMemory, as posted.
  uint32_t grown_receives = 0;
  uint32_t shared_sends = 0;  // See SharedSends.

  // Receives of each queue that may be reserved at once, and its depth.
  uint32_t Receives() const;
  uint32_t ReceiveDepth() const;
  // Counts one completion for everything that can be posted.
  uint32_t CompletionDepth() const;
};

// The plan for `connections` on a device with queues of at most so many
// receives and completions: what is shared shrinks first, then the number of
// connections. That is 0 if there is not even room for one.
QueuePlan PlanQueues(uint32_t connections, uint32_t max_receives,
                     uint32_t max_completions,
                     ReceiveQueues receive_queues = ReceiveQueues::kOneForAll);

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_DEVICE_QUEUE_PLAN_H_
