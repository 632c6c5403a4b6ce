// The transitions that the connection manager makes with a queue pair.

#ifndef VERBENA_TRANSPORT_SOFT_CM_CM_QUEUE_PAIR_H_
#define VERBENA_TRANSPORT_SOFT_CM_CM_QUEUE_PAIR_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "transport/verbs/verbs_ops.h"

namespace verbena::soft {

// What the two sides of a connection have agreed on, as one of them sees it.
struct CmQueuePairTerms {
  uint32_t peer_qp_num = 0;
  ibv_ah_attr path = {};            // From this side's address to the peer's.
  uint8_t responder_resources = 0;  // READs of the peer at a time.
  uint8_t initiator_depth = 0;      // Our READs at a time.
  uint8_t retry_count = 0;
  uint8_t rnr_retry_count = 0;
  uint8_t ack_timeout = 0;
};

// Each function returns 0 or the errno of the modify_qp that failed. The
// attributes are those that librdmacm gives a queue pair, surprises included:
// the peer may always write, and it may read and use atomics if it was granted
// READs; the receiver-not-ready timer is 0, which means 655 ms.

// Takes the queue pair from RESET to INIT: receives can be posted then.
int MoveToInit(ibv_qp* qp);
// Takes the queue pair from INIT to RTS by way of RTR.
// REQUIRES: the link is attached.
int MoveToReadyToSend(ibv_qp* qp, const CmQueuePairTerms& terms);
int MoveToError(ibv_qp* qp);

// Takes a queue pair of type UD from RESET to RTS, with the Q_Key that all
// identifiers have.
int MoveDatagramsToReadyToSend(ibv_qp* qp, const transport::VerbsOps& verbs);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CM_CM_QUEUE_PAIR_H_
