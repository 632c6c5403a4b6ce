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

// Brings the pages of regions on demand in. If some cannot be brought in,
// returns EFAULT with IBV_ADVISE_MR_FLAG_FLUSH, and 0 without it.
int AdviseMr(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags,
             ibv_sge* entries, uint32_t count);

// Registers device memory, as a region that begins at address 0: the right
// IBV_ACCESS_ZERO_BASED is required, as by the kernel.
ibv_mr* RegDmMr(ibv_pd* pd, ibv_dm* dm, uint64_t offset, size_t length,
                unsigned int access);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_VERBS_MEMORY_REGION_H_
