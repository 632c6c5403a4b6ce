// The transitions that the connection manager makes with a queue pair.

#ifndef VERBENA_TRANSPORT_SOFT_CM_CM_QUEUE_PAIR_H_
#define VERBENA_TRANSPORT_SOFT_CM_CM_QUEUE_PAIR_H_

#include <infiniband/verbs.h>

#include <cstdint>

namespace verbena::soft {

// The port of the device that every identifier is on. It has all addresses of
// the host.
inline constexpr uint8_t kCmPort = 1;

// The agreed terms of a connection, as one of its two sides sees them.
struct CmQueuePairTerms {
  uint32_t peer_qp_num = 0;
  ibv_ah_attr path = {};            // From this side's address to the peer's.
  uint8_t responder_resources = 0;  // READs of the peer at a time.
  uint8_t initiator_depth = 0;      // Our READs at a time.
  uint8_t retry_count = 0;
  uint8_t rnr_retry_count = 0;
  uint8_t ack_timeout = 0;
};

// Fills in what the transition to `attributes.qp_state` takes, which is INIT,
// RTR or RTS, and the mask of modify_qp that goes with it. EINVAL for any other
// state, else 0.
//
// The attributes are those that librdmacm gives a queue pair, surprises
// included: the peer may always write, and it may read and use atomics if it
// was granted READs; the receiver-not-ready timer is 0, which means 655 ms.
int FillAttributes(const CmQueuePairTerms& terms, ibv_qp_attr& attributes,
                   int& mask);

// Each of the others returns 0 or the errno of the modify_qp that failed.

// Takes the queue pair from RESET to INIT: receives can be posted then.
int MoveToInit(ibv_qp* qp);
// Takes the queue pair from INIT to RTS by way of RTR. If no link is attached,
// it is connected as those are that users connect manually.
int MoveToReadyToSend(ibv_qp* qp, const CmQueuePairTerms& terms);
int MoveToError(ibv_qp* qp);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CM_CM_QUEUE_PAIR_H_
