// create_cq_ex: completion queues that are read field by field, and that can
// tell when each completion came.

#ifndef VERBENA_TRANSPORT_SOFT_VERBS_EXTENDED_COMPLETION_QUEUE_H_
#define VERBENA_TRANSPORT_SOFT_VERBS_EXTENDED_COMPLETION_QUEUE_H_

#include <infiniband/verbs.h>

namespace verbena::soft {

// The verb create_cq, and the same with extended attributes. Of the fields of a
// completion only those are refused, with EOPNOTSUPP, that belong to Ethernet
// (VLAN, flow tag) and to tag matching. An extended queue can also be polled by
// poll_cq.
ibv_cq* CreateCq(ibv_context* context, int cqe, void* cq_context,
                 ibv_comp_channel* channel, int comp_vector);
ibv_cq_ex* CreateCqEx(ibv_context* context, ibv_cq_init_attr_ex* attributes);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_VERBS_EXTENDED_COMPLETION_QUEUE_H_
