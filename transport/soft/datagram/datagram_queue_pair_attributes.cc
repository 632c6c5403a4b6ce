// modify_qp and query_qp of a datagram queue pair.

#include <cerrno>

#include "transport/soft/address/port_states.h"
#include "transport/soft/datagram/datagram_queue_pair.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/queues/queue_pair_state.h"

namespace verbena::soft {

bool DatagramQueuePair::ValuesAreLegal(const ibv_qp_attr& attributes,
                                       int mask) const {
  const auto has = [mask](int bit) { return (mask & bit) != 0; };
  if (has(IBV_QP_CUR_STATE) && attributes.cur_qp_state != state_) return false;
  if (has(IBV_QP_PORT) && !IsPort(attributes.port_num)) return false;
  return !has(IBV_QP_PKEY_INDEX) || attributes.pkey_index == 0;
}

// Checks the transition and the values, opens the socket for RTR, and then
// changes the state. Requests that have waited in SQD are sent at the end.
int DatagramQueuePair::Modify(const ibv_qp_attr& attributes, int mask) {
  ibv_qp_state to;
  {
    const base::MutexLock lock(lock_);
    const ibv_qp_state from = state_;
    to = (mask & IBV_QP_STATE) != 0 ? attributes.qp_state : from;
    if (!IsLegalTransition(IBV_QPT_UD, from, to, mask) ||
        !ValuesAreLegal(attributes, mask)) {
      return EINVAL;
    }
    // Before anything changes, because it may fail.
    if (to == IBV_QPS_RTR && from != to) {
      if (const int error = OpenSocket(); error != 0) return error;
    }
    ApplyAttributes(attributes, mask);
    if (to == IBV_QPS_ERR) EnterError();
    if (to == IBV_QPS_RESET) Reset();
    SetState(to);
    if (to == IBV_QPS_SQD && from == IBV_QPS_RTS &&
        (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0 &&
        attributes.en_sqd_async_notify != 0) {
      // Nothing is ever under way: a datagram that was sent has arrived or
      // never will, and the others wait. So the queue is drained at once.
      RaiseEvent(IBV_EVENT_SQ_DRAINED);
    }
    Transmit();
  }
  // Without the lock, which a callback of the socket may be waiting for.
  if (to == IBV_QPS_ERR || to == IBV_QPS_RESET) CloseSocket();
  return 0;
}

void DatagramQueuePair::ApplyAttributes(const ibv_qp_attr& from, int mask) {
  const auto has = [mask](int bit) { return (mask & bit) != 0; };
  if (has(IBV_QP_PKEY_INDEX)) attributes_.pkey_index = from.pkey_index;
  if (has(IBV_QP_PORT)) attributes_.port_num = from.port_num;
  if (has(IBV_QP_QKEY)) attributes_.qkey = from.qkey;
  if (has(IBV_QP_SQ_PSN)) attributes_.sq_psn = from.sq_psn;
}

void DatagramQueuePair::Query(ibv_qp_attr& attributes,
                              ibv_qp_init_attr& init_attributes) {
  const base::MutexLock lock(lock_);
  attributes = attributes_;
  attributes.qp_state = attributes.cur_qp_state = state_;
  attributes.path_mtu = IBV_MTU_4096;
  attributes.path_mig_state = IBV_MIG_MIGRATED;
  attributes.cap = init_attributes_.cap;
  init_attributes = init_attributes_;
}

}  // namespace verbena::soft
