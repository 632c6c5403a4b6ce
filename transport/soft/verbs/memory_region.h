// Memory regions.

#ifndef VERBENA_TRANSPORT_SOFT_VERBS_MEMORY_REGION_H_
#define VERBENA_TRANSPORT_SOFT_VERBS_MEMORY_REGION_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/soft/base/live_handles.h"

namespace verbena::soft {

// A registered region. Its protection domain, and the device memory that it is
// made of, outlive it: they count it until it is deregistered.
struct MemoryRegion final : ibv_mr {
  MemoryRegion(const ibv_mr& region, std::atomic<int>* counted_in)
      : ibv_mr{region}, user(counted_in) {}

  // The count of the device memory that has this region; null for ordinary
  // memory.
  std::atomic<int>* user;

 private:
  const LiveHandle<ibv_mr> live_{this};
};

// The verbs of these names; RegMrAt() is ibv_reg_mr_iova. A region on demand
// needs no memory when it is registered, and may be as large as the whole
// address space; see on_demand_memory.h.
ibv_mr* RegMr(ibv_pd* pd, void* addr, size_t length, int access);
ibv_mr* RegMrAt(ibv_pd* pd, void* addr, size_t length, uint64_t iova,
                int access);
int DeregMr(ibv_mr* mr);

// For verbs that register memory in other ways.

// The rights that a region may have. The flags of IBV_ACCESS_OPTIONAL_RANGE are
// wishes, which are not refused.
inline constexpr unsigned int kRegionAccessFlags =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ON_DEMAND |
    IBV_ACCESS_HUGETLB | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_OPTIONAL_RANGE;

// Whether a region may have these rights together.
bool RightsAreLegal(unsigned int access);

// Enters a region whose memory begins at `start` and that users address from
// `iova` on. `user` counts the region; null for none.
ibv_mr* EnterRegion(ibv_pd* pd, void* start, size_t length, uint64_t iova,
                    unsigned int access, std::atomic<int>* user);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_VERBS_MEMORY_REGION_H_
