// Changing a memory region.

#ifndef VERBENA_TRANSPORT_SOFT_EXTENDED_REREG_MR_H_
#define VERBENA_TRANSPORT_SOFT_EXTENDED_REREG_MR_H_

#include <infiniband/verbs.h>

#include <cstddef>

namespace verbena::soft {

// ibv_rereg_mr. The keys of the region stay the same; while it changes, they
// open nothing. What cannot be done leaves the region as it was. Returns
// IBV_REREG_MR_ERR_INPUT for bad arguments, and IBV_REREG_MR_ERR_CMD with errno
// EBUSY for a region with a bound window, or EOPNOTSUPP for device memory and
// memory on demand.
int ReregMr(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, size_t length,
            int access);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_EXTENDED_REREG_MR_H_
