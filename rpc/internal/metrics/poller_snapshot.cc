#include "rpc/internal/metrics/poller_snapshot.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "transport/session/connection_state.h"

namespace verbena::internal {
namespace {

using transport::ConnectionState;
using transport::DeviceCounters;

// A linear search, because a process has few devices.
DeviceMetrics& EntryOf(absl::string_view device, PollerMetrics* metrics) {
  const auto found = std::find_if(
      metrics->devices.begin(), metrics->devices.end(),
      [device](const DeviceMetrics& each) { return each.device == device; });
  if (found != metrics->devices.end()) return *found;
  metrics->devices.emplace_back().device = std::string(device);
  return metrics->devices.back();
}

uint64_t InState(const DeviceCounters& counters, ConnectionState state) {
  return counters.connections[static_cast<size_t>(state)].value();
}

void AddDevice(const DeviceCounters& counters, DeviceMetrics* device) {
  device->connecting += InState(counters, ConnectionState::kConnecting);
  device->open += InState(counters, ConnectionState::kOpen);
  // Users see three states: the steps of a close are the library's own.
  device->closing += InState(counters, ConnectionState::kSayingBye) +
                     InState(counters, ConnectionState::kDraining);
  device->connections_begun += counters.begun.value();
  device->failed_handshakes += counters.failed_handshakes.value();
  device->unopened += counters.unopened.value();
  device->retries_exceeded += counters.retries_exceeded.value();
  device->rnr_retries_exceeded += counters.rnr_retries_exceeded.value();
  device->credit_waits += counters.credit_waits.value();
  device->slot_waits += counters.slot_waits.value();
  device->frame_bytes += counters.frame_bytes.value();
  device->pool_bytes += counters.pool_bytes.value();
  device->pool_used_bytes += counters.pool_allocated_bytes.value();
  device->leases += counters.leases.value();
  device->quarantined_calls += counters.quarantined_calls.value();
}

}  // namespace

void AddPoller(const transport::PollerCounters& counters,
               PollerMetrics* metrics) {
  ++metrics->pollers;
  metrics->polls += counters.polls.value();
  metrics->arms += counters.arms.value();
  metrics->sleeps += counters.sleeps.value();
  counters.VisitDevices(
      [metrics](absl::string_view name, const DeviceCounters& device) {
        AddDevice(device, &EntryOf(name, metrics));
      });
}

}  // namespace verbena::internal
