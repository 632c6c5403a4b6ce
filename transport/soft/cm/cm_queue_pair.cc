#include "transport/soft/cm/cm_queue_pair.h"

#include <algorithm>

#include "transport/soft/base/limits.h"
#include "transport/soft/connected/queue_pair.h"

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

int ReadyToReceive(ibv_qp* qp, const CmQueuePairNumbers& numbers) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.grh.dgid = numbers.peer_gid;
  attributes.ah_attr.grh.sgid_index = static_cast<uint8_t>(numbers.gid_index);
  attributes.ah_attr.grh.hop_limit = 1;
  attributes.ah_attr.port_num = kPort;
  attributes.path_mtu = IBV_MTU_4096;
  attributes.dest_qp_num = numbers.peer_qp_num;
  // The peer chose one side of this number.
  attributes.max_dest_rd_atomic =
      std::min<int>(numbers.responder_resources, kReadsMax);
  return Modify(qp, attributes,
                IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int ReadyToSend(ibv_qp* qp, const CmQueuePairNumbers& numbers) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = numbers.ack_timeout;
  attributes.retry_cnt = std::min<int>(numbers.retry_count, 7);
  attributes.rnr_retry = std::min<int>(numbers.rnr_retry_count, 7);
  attributes.max_rd_atomic = std::min<int>(numbers.initiator_depth, kReadsMax);
  return Modify(qp, attributes,
                IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

}  // namespace

int MoveToInit(ibv_qp* qp) { return Init(qp, 0); }

int MoveToReadyToSend(ibv_qp* qp, const CmQueuePairNumbers& numbers) {
  unsigned int access = IBV_ACCESS_REMOTE_WRITE;
  if (numbers.responder_resources != 0) {
    access |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  }
  if (const int error = Init(qp, access); error != 0) return error;
  if (const int error = ReadyToReceive(qp, numbers); error != 0) return error;
  return ReadyToSend(qp, numbers);
}

int MoveToError(ibv_qp* qp) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_ERR;
  return Modify(qp, attributes, 0);
}

}  // namespace verbena::soft
