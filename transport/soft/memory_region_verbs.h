// Registering memory.

#ifndef VERBENA_TRANSPORT_SOFT_MEMORY_REGION_VERBS_H_
#define VERBENA_TRANSPORT_SOFT_MEMORY_REGION_VERBS_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace verbena::soft {

// Each has the behaviour of the function of libibverbs with its name.

// With IBV_ACCESS_ZERO_BASED the first byte is named 0, else by its address.
ibv_mr* RegMr(ibv_pd* pd, void* addr, size_t length, int access);

// The first byte is named `iova`, in local and in remote addresses.
ibv_mr* RegMrIova(ibv_pd* pd, void* addr, size_t length, uint64_t iova,
                  int access);

// The keys stay the same. While it changes, they open nothing. A region with a
// bound window does not change: IBV_REREG_MR_ERR_INPUT and EBUSY.
int ReregMr(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, size_t length,
            int access);

// EBUSY while a window is bound to it. Waits for copies under way.
int DeregMr(ibv_mr* mr);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_MEMORY_REGION_VERBS_H_
