// Converts the counters of pollers to PollerMetrics.

#ifndef VERBENA_RPC_INTERNAL_METRICS_POLLER_SNAPSHOT_H_
#define VERBENA_RPC_INTERNAL_METRICS_POLLER_SNAPSHOT_H_

#include "rpc/metrics.h"
#include "transport/polling/poller_counters.h"

namespace verbena::internal {

// Adds one poller to `metrics`: its devices to those of the same names.
void AddPoller(const transport::PollerCounters& counters,
               PollerMetrics* metrics);

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_METRICS_POLLER_SNAPSHOT_H_
