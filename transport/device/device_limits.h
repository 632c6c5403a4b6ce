// The numbers of a device that bound what a connection asks of it.

#ifndef VERBENA_TRANSPORT_DEVICE_DEVICE_LIMITS_H_
#define VERBENA_TRANSPORT_DEVICE_DEVICE_LIMITS_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "transport/base/limits.h"
#include "transport/verbs/provider.h"

namespace verbena::transport {

// A connection asks for no more than this, whatever limits.h wants.
struct DeviceLimits {
  bool iwarp = false;  // READ sinks need a key of their own: see ReadSinks.
  uint32_t send_depth = kSendQueueDepth;  // Work requests of a queue pair.
  // Whether queue pairs take receives from shared queues. False on iWARP, which
  // has no receiver-not-ready: if another connection took the last receive, the
  // next message would end its own connection.
  bool shared_receives = true;
  uint32_t receives = 0;     // In a receive queue.
  uint32_t completions = 0;  // In a completion queue.
  // READs under way at once of one queue pair: a peer's, and our own.
  uint8_t reads_answered = kReadDepth;
  uint8_t reads_made = kReadDepth;
};

// The error of the device if it cannot be asked.
absl::StatusOr<DeviceLimits> QueryLimits(const Provider& provider,
                                         ibv_context* context);

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_DEVICE_DEVICE_LIMITS_H_
