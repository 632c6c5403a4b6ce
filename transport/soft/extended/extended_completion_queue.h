// create_cq_ex: completion queues that are read field by field, and that can
// tell when each completion came.

#ifndef VERBENA_TRANSPORT_SOFT_EXTENDED_EXTENDED_COMPLETION_QUEUE_H_
#define VERBENA_TRANSPORT_SOFT_EXTENDED_EXTENDED_COMPLETION_QUEUE_H_

#include <infiniband/verbs.h>

namespace verbena::soft {

// The verb create_cq_ex. Of the fields of a completion, those of Ethernet
// (VLAN, flow tag) and of tag matching are refused with EOPNOTSUPP. An extended
// queue can also be polled by poll_cq.
ibv_cq_ex* CreateCqEx(ibv_context* context, ibv_cq_init_attr_ex* attributes);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_EXTENDED_EXTENDED_COMPLETION_QUEUE_H_
