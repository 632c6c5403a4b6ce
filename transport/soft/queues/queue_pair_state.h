// The states of a queue pair and how it moves between them.

#ifndef VERBENA_TRANSPORT_SOFT_QUEUES_QUEUE_PAIR_STATE_H_
#define VERBENA_TRANSPORT_SOFT_QUEUES_QUEUE_PAIR_STATE_H_

#include <infiniband/verbs.h>

namespace verbena::soft {

// Whether modify_qp may take a queue pair of `type` (RC, UC or UD) from `from`
// to `to` with the attributes of `mask` (IBV_QP_*): the transition is legal,
// every attribute it requires is there and none that it does not allow.
//
// The tables are those of the InfiniBand specification (modifiers of "Modify
// Queue Pair"), as the Linux kernel checks them for every device. Only datagram
// queue pairs have the state SQE: others go to ERR.
bool IsLegalTransition(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to,
                       int mask);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_QUEUES_QUEUE_PAIR_STATE_H_
