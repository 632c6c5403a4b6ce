// modify_qp and query_qp.

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "transport/soft/address/port_states.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/connected/queue_pair.h"
#include "transport/soft/connected/queue_pair_state.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/queues/address_handle.h"

namespace verbena::soft {
namespace {

constexpr unsigned int kAccessFlags =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
    IBV_ACCESS_REMOTE_ATOMIC;

// What may change the path, or whether it is up.
constexpr int kPathAttributes =
    IBV_QP_PORT | IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;

bool AlternateIsLegal(const ibv_qp_attr& attributes, GidTable& gids) {
  gids.Refresh();
  return attributes.alt_port_num == attributes.alt_ah_attr.port_num &&
         attributes.alt_pkey_index == 0 && attributes.alt_timeout <= 31 &&
         PathIsLegal(attributes.alt_ah_attr, gids);
}

// Whether the attributes of `mask` have values that the device can take.
bool ValuesAreLegal(const ibv_qp_attr& attributes, int mask) {
  const auto has = [mask](int bit) { return (mask & bit) != 0; };
  if (has(IBV_QP_PORT) && !IsPort(attributes.port_num)) return false;
  if (has(IBV_QP_PKEY_INDEX) && attributes.pkey_index != 0) return false;
  if (has(IBV_QP_ACCESS_FLAGS) &&
      (attributes.qp_access_flags & ~kAccessFlags) != 0) {
    return false;
  }
  if (has(IBV_QP_PATH_MTU) && (attributes.path_mtu < IBV_MTU_256 ||
                               attributes.path_mtu > IBV_MTU_4096)) {
    return false;
  }
  if (has(IBV_QP_DEST_QPN) && attributes.dest_qp_num > kQueuePairNumberMax)
    return false;
  if (has(IBV_QP_MAX_DEST_RD_ATOMIC) &&
      attributes.max_dest_rd_atomic > kReadsMax) {
    return false;
  }
  if (has(IBV_QP_MAX_QP_RD_ATOMIC) && attributes.max_rd_atomic > kReadsMax) {
    return false;
  }
  if (has(IBV_QP_MIN_RNR_TIMER) && attributes.min_rnr_timer > 31) return false;
  if (has(IBV_QP_TIMEOUT) && attributes.timeout > 31) return false;
  if (has(IBV_QP_RETRY_CNT) && attributes.retry_cnt > 7) return false;
  if (has(IBV_QP_RNR_RETRY) && attributes.rnr_retry > 7) return false;
  return true;
}

}  // namespace

int QueuePair::Modify(const ibv_qp_attr& attributes, int mask) {
  std::lock_guard<std::mutex> modifying(modify_mutex_);
  ibv_qp_state from;
  bool attached;
  bool path_is_legal;
  {
    BiasedLock::Guard lock(lock_);
    from = state_;
    attached = port_.attached();
    path_is_legal = StateOfPathIsLegal(attributes, mask);
  }
  const ibv_qp_state to =
      (mask & IBV_QP_STATE) != 0 ? attributes.qp_state : from;
  if ((mask & IBV_QP_CUR_STATE) != 0 && attributes.cur_qp_state != from) {
    return EINVAL;
  }
  if (!IsLegalTransition(qp_type, from, to, mask) || !path_is_legal ||
      !ValuesAreLegal(attributes, mask) ||
      ((mask & IBV_QP_ALT_PATH) != 0 &&
       !AlternateIsLegal(attributes, device_.gids()))) {
    return EINVAL;
  }
  if (to == IBV_QPS_RTR && !attached) {
    ConnectByHand(attributes);
  }
  if (to == IBV_QPS_RTR && !is_engine_member_) {
    device_.engine().AddMember(this);
    is_engine_member_ = true;
  }
  std::optional<LinkMemory> memory;  // Of a link that is no more.
  {
    BiasedLock::Guard lock(lock_);
    // It may have failed meanwhile; then only ERR and RESET are left.
    if (state_ != from && !IsLegalTransition(qp_type, state_, to, mask))
      return EINVAL;
    ApplyAttributes(attributes, mask);
    memory = EnterState(to);
  }
  if ((mask & kPathAttributes) != 0) LookAtPath();
  if (to == IBV_QPS_RESET) {
    WaitForPolls();
    awaits_link_ = false;
    hand_link_.reset();
    device_.queue_pairs().DropLinksOf(qp_num);
  }
  return 0;
}

std::optional<LinkMemory> QueuePair::EnterState(ibv_qp_state to) {
  ibv_qp::state = to;
  if (to == state_) return std::nullopt;
  switch (to) {
    case IBV_QPS_RESET:
      return Reset();
    case IBV_QPS_ERR:
      EnterError(-1);
      return std::nullopt;
    case IBV_QPS_RTR:
      state_ = to;
      path_up_ = device_.port_states().IsActive(attributes_.port_num);
      receiving_ = path_up_;
      OpenLink();
      return std::nullopt;
    case IBV_QPS_RTS:
    case IBV_QPS_SQD: {
      const bool draining = to == IBV_QPS_SQD;
      const bool changes = draining || state_ == IBV_QPS_SQD;
      state_ = to;
      if (changes) SetDraining(draining);
      return std::nullopt;
    }
    default:
      state_ = to;
      return std::nullopt;
  }
}

void QueuePair::SetDraining(bool draining) {
  if (draining) {
    requester_.Hold();
    watched_ = true;
    if (Connected() && asleep_ && port_.sleep() != kAwake) {
      // What nobody waited for until now must ring, or has come already.
      port_.SetSleep(WantedSleep());
      LinkPort::FenceAfterSleep();
      if (!ReadPeerWords()) EnterError(IBV_EVENT_QP_FATAL);
    }
    AfterTransmit();  // Nothing may be under way.
    return;
  }
  requester_.Release();
  drained_event_wanted_ = false;
  watched_ = requester_.unreliable();
  Unsettle();
  Transmit();
  SettleFailures();
  NotePeerState();
  TellEngine();
  device_.engine().Kick(this);
}

// What few queue pairs need to look at whenever something was sent or taken.
void QueuePair::AfterTransmit() {
  if (requester_.unreliable()) requester_.CompleteSent();
  if (drained_event_wanted_ && state_ == IBV_QPS_SQD && requester_.drained()) {
    drained_event_wanted_ = false;
    RaiseEvent(IBV_EVENT_SQ_DRAINED);
  }
}

void QueuePair::OpenLink() {
  if (!port_.attached()) return;
  port_.SetPath(migration_.word());
  port_.SetState(path_up_ ? kLinkOpen : kLinkStalled);
  ServeLink();
  if (hold_ != LinkHold::kNone) PutLinkAside();
}

void QueuePair::ServeLink() {
  if (!Connected()) return;
  Sleep();  // Until somebody polls.
  recv_cq_.Return(this);
}

void QueuePair::ApplyAttributes(const ibv_qp_attr& from, int mask) {
  ibv_qp_attr& to = attributes_;
  const auto has = [mask](int bit) { return (mask & bit) != 0; };
  if (has(IBV_QP_PKEY_INDEX)) to.pkey_index = from.pkey_index;
  if (has(IBV_QP_PORT)) to.port_num = from.port_num;
  if (has(IBV_QP_ACCESS_FLAGS)) {
    to.qp_access_flags = from.qp_access_flags;
    responder_.SetAccess(from.qp_access_flags);
  }
  if (has(IBV_QP_AV)) to.ah_attr = from.ah_attr;
  if (has(IBV_QP_ALT_PATH)) {
    to.alt_ah_attr = from.alt_ah_attr;
    to.alt_pkey_index = from.alt_pkey_index;
    to.alt_port_num = from.alt_port_num;
    to.alt_timeout = from.alt_timeout;
  }
  if (has(IBV_QP_PATH_MTU)) to.path_mtu = from.path_mtu;
  if (has(IBV_QP_DEST_QPN)) to.dest_qp_num = from.dest_qp_num;
  if (has(IBV_QP_RQ_PSN)) to.rq_psn = from.rq_psn;
  if (has(IBV_QP_SQ_PSN)) to.sq_psn = from.sq_psn;
  if (has(IBV_QP_MAX_DEST_RD_ATOMIC)) {
    to.max_dest_rd_atomic = from.max_dest_rd_atomic;
    responder_.SetReadsMax(from.max_dest_rd_atomic);
  }
  if (has(IBV_QP_MIN_RNR_TIMER)) {
    to.min_rnr_timer = from.min_rnr_timer;
    responder_.SetRnrTimer(from.min_rnr_timer);
  }
  if (has(IBV_QP_TIMEOUT)) to.timeout = from.timeout;
  if (has(IBV_QP_RETRY_CNT)) to.retry_cnt = from.retry_cnt;
  if (has(IBV_QP_RNR_RETRY)) {
    to.rnr_retry = from.rnr_retry;
    requester_.SetRnrRetry(from.rnr_retry);
  }
  if (has(IBV_QP_MAX_QP_RD_ATOMIC)) {
    to.max_rd_atomic = from.max_rd_atomic;
    requester_.SetReadsMax(from.max_rd_atomic);
  }
  if (has(IBV_QP_EN_SQD_ASYNC_NOTIFY)) {
    drained_event_wanted_ = from.en_sqd_async_notify != 0;
  }
  if (has(IBV_QP_PATH_MIG_STATE)) SetMigrationState(from.path_mig_state);
}

void QueuePair::Query(ibv_qp_attr& attributes,
                      ibv_qp_init_attr& init_attributes) {
  bool may_migrate;
  {
    BiasedLock::Guard lock(lock_);
    may_migrate = migration_.state() != IBV_MIG_MIGRATED;
  }
  // What the peer has said may not have been noticed yet.
  if (may_migrate) LookAtPath();
  BiasedLock::Guard lock(lock_);
  attributes = attributes_;
  attributes.qp_state = attributes.cur_qp_state = state_;
  attributes.sq_draining =
      state_ == IBV_QPS_SQD && !requester_.drained() ? 1 : 0;
  attributes.path_mig_state = migration_.state();
  attributes.cap = init_attributes_.cap;
  init_attributes = init_attributes_;
}

}  // namespace verbena::soft
