#include "transport/soft/cm/cm_queue_pair.h"

#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>

#include "transport/soft/base/limits.h"
#include "transport/soft/queues/queue_pair.h"

namespace verbena::soft {
namespace {

// The rights are those that the kernel's manager gives: to write always, to
// read and for atomics if any are to be answered.
int FillInit(const CmQueuePairTerms& terms, ibv_qp_attr& attributes) {
  attributes.port_num = kCmPort;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (terms.responder_resources != 0) {
    attributes.qp_access_flags |=
        IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  }
  return IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
}

int FillReadyToReceive(const CmQueuePairTerms& terms, ibv_qp_attr& attributes) {
  attributes.ah_attr = terms.path;
  // The largest: the segments of the device do not depend on it.
  attributes.path_mtu = IBV_MTU_4096;
  attributes.dest_qp_num = terms.peer_qp_num;
  // The peer has chosen this number, which may be anything.
  attributes.max_dest_rd_atomic =
      std::min<int>(terms.responder_resources, kReadsMax);
  // The timer for a receiver that is not ready stays 0, which means 655 ms, as
  // with librdmacm.
  return IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

int FillReadyToSend(const CmQueuePairTerms& terms, ibv_qp_attr& attributes) {
  attributes.timeout = terms.ack_timeout;
  // The peer has chosen these numbers too.
  attributes.retry_cnt = std::min<int>(terms.retry_count, 7);
  attributes.rnr_retry = std::min<int>(terms.rnr_retry_count, 7);
  attributes.max_rd_atomic = std::min<int>(terms.initiator_depth, kReadsMax);
  return IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
         IBV_QP_MAX_QP_RD_ATOMIC;
}

int Modify(ibv_qp* qp, ibv_qp_state to, const CmQueuePairTerms& terms) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = to;
  int mask = 0;
  const int error = FillAttributes(terms, attributes, mask);
  return error != 0 ? error : QueuePair::From(qp)->Modify(attributes, mask);
}

}  // namespace

int FillAttributes(const CmQueuePairTerms& terms, ibv_qp_attr& attributes,
                   int& mask) {
  // The one attribute that the caller has set.
  const ibv_qp_state to = attributes.qp_state;
  attributes = {};
  attributes.qp_state = to;
  switch (to) {
    case IBV_QPS_INIT:
      mask = IBV_QP_STATE | FillInit(terms, attributes);
      return 0;
    case IBV_QPS_RTR:
      mask = IBV_QP_STATE | FillReadyToReceive(terms, attributes);
      return 0;
    case IBV_QPS_RTS:
      mask = IBV_QP_STATE | FillReadyToSend(terms, attributes);
      return 0;
    default:
      return EINVAL;
  }
}

// Grants the peer no rights yet: they are agreed on when the queue pair is
// connected.
int MoveToInit(ibv_qp* qp) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = kCmPort;
  return QueuePair::From(qp)->Modify(
      attributes,
      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

// The queue pair is in INIT already; from INIT to INIT it gets the rights that
// were agreed on only now.
int MoveToReadyToSend(ibv_qp* qp, const CmQueuePairTerms& terms) {
  for (const ibv_qp_state to : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    if (const int error = Modify(qp, to, terms); error != 0) return error;
  }
  return 0;
}

int MoveToError(ibv_qp* qp) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_ERR;
  return QueuePair::From(qp)->Modify(attributes, IBV_QP_STATE);
}

}  // namespace verbena::soft
