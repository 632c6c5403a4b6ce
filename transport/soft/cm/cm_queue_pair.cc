#include "transport/soft/cm/cm_queue_pair.h"

#include <rdma/rdma_cma.h>

#include <algorithm>

#include "transport/soft/base/limits.h"
#include "transport/soft/queues/queue_pair.h"

namespace verbena::soft {
namespace {

constexpr uint8_t kPort = 1;

int Modify(ibv_qp* qp, const ibv_qp_attr& attributes, int mask) {
  return QueuePair::From(qp)->Modify(attributes, IBV_QP_STATE | mask);
}

int Init(ibv_qp* qp, unsigned int access) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = kPort;
  attributes.qp_access_flags = access;
  return Modify(qp, attributes,
                IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int ReadyToReceive(ibv_qp* qp, const CmQueuePairTerms& terms) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.ah_attr = terms.path;
  attributes.path_mtu = IBV_MTU_4096;
  attributes.dest_qp_num = terms.peer_qp_num;
  // The peer has chosen this number, which may be anything.
  attributes.max_dest_rd_atomic =
      std::min<int>(terms.responder_resources, kReadsMax);
  return Modify(qp, attributes,
                IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int ReadyToSend(ibv_qp* qp, const CmQueuePairTerms& terms) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = terms.ack_timeout;
  // The peer has chosen these numbers too.
  attributes.retry_cnt = std::min<int>(terms.retry_count, 7);
  attributes.rnr_retry = std::min<int>(terms.rnr_retry_count, 7);
  attributes.max_rd_atomic = std::min<int>(terms.initiator_depth, kReadsMax);
  return Modify(qp, attributes,
                IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int ModifyDatagrams(ibv_qp* qp, const transport::VerbsOps& verbs,
                    ibv_qp_state state, int mask) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = state;
  attributes.port_num = kPort;
  attributes.qkey = RDMA_UDP_QKEY;
  return verbs.modify_qp(qp, &attributes, IBV_QP_STATE | mask);
}

}  // namespace

int MoveToInit(ibv_qp* qp) { return Init(qp, 0); }

// The queue pair is in INIT already; from INIT to INIT it gets the rights that
// were agreed on only now.
int MoveToReadyToSend(ibv_qp* qp, const CmQueuePairTerms& terms) {
  unsigned int access = IBV_ACCESS_REMOTE_WRITE;
  if (terms.responder_resources != 0) {
    access |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  }
  if (const int error = Init(qp, access); error != 0) return error;
  if (const int error = ReadyToReceive(qp, terms); error != 0) return error;
  return ReadyToSend(qp, terms);
}

int MoveToError(ibv_qp* qp) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_ERR;
  return Modify(qp, attributes, 0);
}

int MoveDatagramsToReadyToSend(ibv_qp* qp, const transport::VerbsOps& verbs) {
  int error = ModifyDatagrams(qp, verbs, IBV_QPS_INIT,
                              IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
  if (error == 0) error = ModifyDatagrams(qp, verbs, IBV_QPS_RTR, 0);
  if (error == 0) {
    error = ModifyDatagrams(qp, verbs, IBV_QPS_RTS, IBV_QP_SQ_PSN);
  }
  return error;
}

}  // namespace verbena::soft
