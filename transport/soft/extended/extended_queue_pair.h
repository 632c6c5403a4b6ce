// create_qp_ex: queue pairs to whose send queue the ibv_wr_... functions post.

#ifndef VERBENA_TRANSPORT_SOFT_EXTENDED_EXTENDED_QUEUE_PAIR_H_
#define VERBENA_TRANSPORT_SOFT_EXTENDED_EXTENDED_QUEUE_PAIR_H_

#include <infiniband/verbs.h>

namespace verbena::soft {

// The verb create_qp for all types.
ibv_qp* CreateQpOfAnyType(ibv_pd* pd, ibv_qp_init_attr* attributes);

// The verb create_qp_ex, with these extended attributes: a protection domain,
// without which it refuses with EINVAL, and the operations to send
// (IBV_QP_INIT_ATTR_SEND_OPS_FLAGS). Other attributes, and operations that
// queue pairs of this type do not have, are refused with EOPNOTSUPP. Writes the
// capacities that were granted into the attributes.
ibv_qp* CreateQpEx(ibv_context* context, ibv_qp_init_attr_ex* attributes);

// ibv_qp_to_qp_ex: null when `qp` was not made with operations to send.
ibv_qp_ex* ToExtendedQueuePair(ibv_qp* qp);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_EXTENDED_EXTENDED_QUEUE_PAIR_H_
