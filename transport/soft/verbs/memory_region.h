// Memory regions.

#ifndef VERBENA_TRANSPORT_SOFT_VERBS_MEMORY_REGION_H_
#define VERBENA_TRANSPORT_SOFT_VERBS_MEMORY_REGION_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace verbena::soft {

// A registered region. `user` counts it until it is deregistered.
struct MemoryRegion final : ibv_mr {
  MemoryRegion(const ibv_mr& region, std::atomic<int>* counted_in)
      : ibv_mr{region}, user(counted_in) {}

  std::atomic<int>* user;  // Null when only the protection domain counts it.
};

// The verbs of these names; RegMrAt is ibv_reg_mr_iova. A region that is
// registered on demand needs no memory when it is registered, and may be of the
// whole address space; see on_demand_memory.h.
ibv_mr* RegMr(ibv_pd* pd, void* addr, size_t length, int access);
ibv_mr* RegMrAt(ibv_pd* pd, void* addr, size_t length, uint64_t iova,
                int access);
int DeregMr(ibv_mr* mr);

// Brings pages of regions on demand in. Without pages to bring, with
// IBV_ADVISE_MR_FLAG_FLUSH, EFAULT.
int AdviseMr(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags,
             ibv_sge* entries, uint32_t count);

// Its region begins at address 0: the right IBV_ACCESS_ZERO_BASED is required,
// as by the kernel.
ibv_mr* RegDmMr(ibv_pd* pd, ibv_dm* dm, uint64_t offset, size_t length,
                unsigned int access);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_VERBS_MEMORY_REGION_H_
