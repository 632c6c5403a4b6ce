// The states of a datagram queue pair and how it moves between them.

#ifndef VERBENA_TRANSPORT_SOFT_DATAGRAM_QUEUE_PAIR_STATE_H_
#define VERBENA_TRANSPORT_SOFT_DATAGRAM_QUEUE_PAIR_STATE_H_

#include <infiniband/verbs.h>

namespace verbena::soft {

// Whether modify_qp may take a datagram queue pair from `from` to `to` with the
// attributes of `mask` (IBV_QP_*): the transition is legal, every attribute it
// requires is there and none that it does not allow. The table is that of the
// InfiniBand specification.
bool IsLegalDatagramTransition(ibv_qp_state from, ibv_qp_state to, int mask);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DATAGRAM_QUEUE_PAIR_STATE_H_
