// How much memory is registered, for whoever is not on the poller's thread.

#ifndef VERBENA_TRANSPORT_DEVICE_MEMORY_GAUGES_H_
#define VERBENA_TRANSPORT_DEVICE_MEMORY_GAUGES_H_

#include <cstdint>
#include <utility>

#include "transport/base/counter.h"
#include "transport/device/memory_domain.h"
#include "transport/polling/poller_counters.h"

namespace verbena::transport {

// The share of one MemoryDomain in the counters of its device, for as long as
// this lives. Confined to the poller's thread.
class MemoryGauges {
 public:
  explicit MemoryGauges(DeviceCounters& counters) : counters_(counters) {}
  MemoryGauges(const MemoryGauges&) = delete;
  MemoryGauges& operator=(const MemoryGauges&) = delete;
  ~MemoryGauges() { Set(0, 0, 0, 0); }

  // `leases` of its pool are lent to a peer.
  void Update(MemoryDomain& memory, uint64_t leases = 0) {
    Set(memory.frame_bytes(), memory.pool().registered_bytes(),
        memory.pool().allocated_bytes(), leases);
  }

 private:
  void Set(uint64_t frames, uint64_t pool, uint64_t allocated,
           uint64_t leases) {
    // Modulo 2^64, so that less is added too.
    counters_.frame_bytes.Add(frames - std::exchange(frames_, frames));
    counters_.pool_bytes.Add(pool - std::exchange(pool_, pool));
    counters_.pool_allocated_bytes.Add(allocated -
                                       std::exchange(allocated_, allocated));
    counters_.leases.Add(leases - std::exchange(leases_, leases));
  }

  DeviceCounters& counters_;
  uint64_t frames_ = 0;
  uint64_t pool_ = 0;
  uint64_t allocated_ = 0;
  uint64_t leases_ = 0;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_DEVICE_MEMORY_GAUGES_H_
