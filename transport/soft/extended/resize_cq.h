// Changing the capacity of a completion queue.

#ifndef VERBENA_TRANSPORT_SOFT_EXTENDED_RESIZE_CQ_H_
#define VERBENA_TRANSPORT_SOFT_EXTENDED_RESIZE_CQ_H_

#include <infiniband/verbs.h>

namespace verbena::soft {

// ibv_resize_cq: 0, or EINVAL when the device has no such capacity or more
// completions than that are waiting. Completions may come and go meanwhile.
int ResizeCq(ibv_cq* cq, int cqe);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_EXTENDED_RESIZE_CQ_H_
