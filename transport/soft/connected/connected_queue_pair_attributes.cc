// modify_qp and query_qp, and what the states mean.

#include <cerrno>
#include <optional>

#include "transport/soft/connected/connected_queue_pair.h"
#include "transport/soft/queues/queue_pair_state.h"

namespace verbena::soft {
namespace {

// Attributes that may change the path, or whether it is up.
constexpr int kPathAttributes =
    IBV_QP_PORT | IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;

}  // namespace

// The attributes are checked against the state as it is now; Change() checks
// again, because the queue pair may fail at any time before it has the lock.
int ConnectedQueuePair::Modify(const ibv_qp_attr& attributes, int mask) {
  const base::MutexLock modifying(modify_mutex_);
  ibv_qp_state from;
  bool attached;
  bool path_is_legal;
  {
    BiasedLock::Guard lock(lock_);
    from = state_;
    attached = link().attached();
    path_is_legal = attributes_.PathIsLegal(attributes, mask, migration_);
  }
  const ibv_qp_state to =
      (mask & IBV_QP_STATE) != 0 ? attributes.qp_state : from;
  if ((mask & IBV_QP_CUR_STATE) != 0 && attributes.cur_qp_state != from) {
    return EINVAL;
  }
  if (!IsLegalTransition(qp_type, from, to, mask) || !path_is_legal ||
      !QueuePairAttributes::ValuesAreLegal(attributes, mask, device_.gids())) {
    return EINVAL;
  }
  // Without lock_, because finding the link may wait for another process.
  if (to == IBV_QPS_RTR && !attached) {
    if (finder_ == nullptr) return EOPNOTSUPP;
    finder_->Find(attributes);
  }
  // Before the link opens: from then on the engine must run the queue pair
  // until somebody polls.
  if (to == IBV_QPS_RTR) JoinEngine();
  // The memory of a link that is detached, kept until WaitForPolls().
  std::optional<LinkMemory> memory;
  if (to == IBV_QPS_RTR || to == IBV_QPS_ERR) {
    BiasedLock::Guard polls(polling_lock());  // EnterState() takes packets.
    if (!Change(from, to, attributes, mask, memory)) return EINVAL;
  } else if (!Change(from, to, attributes, mask, memory)) {
    return EINVAL;
  }
  if ((mask & kPathAttributes) != 0) LookAtPath();
  if (to == IBV_QPS_RESET) {
    WaitForPolls();
    if (finder_ != nullptr) finder_->Reset();
  }
  return 0;
}

bool ConnectedQueuePair::Change(ibv_qp_state from, ibv_qp_state to,
                                const ibv_qp_attr& attributes, int mask,
                                std::optional<LinkMemory>& memory) {
  BiasedLock::Guard lock(lock_);
  // The queue pair may have entered ERR since Modify() looked at its state.
  // From ERR only the transitions to RESET and ERR are legal.
  if (state_ != from && !IsLegalTransition(qp_type, state_, to, mask)) {
    return false;
  }
  ApplyAttributes(attributes, mask);
  memory = EnterState(to);
  return true;
}

void ConnectedQueuePair::ApplyAttributes(const ibv_qp_attr& from, int mask) {
  const auto has = [mask](int bit) { return (mask & bit) != 0; };
  attributes_.Apply(from, mask);
  if (has(IBV_QP_ACCESS_FLAGS)) responder().SetAccess(from.qp_access_flags);
  if (has(IBV_QP_MAX_DEST_RD_ATOMIC)) {
    responder().SetReadsMax(from.max_dest_rd_atomic);
  }
  if (has(IBV_QP_MIN_RNR_TIMER)) responder().SetRnrTimer(from.min_rnr_timer);
  if (has(IBV_QP_RNR_RETRY)) requester().SetRnrRetry(from.rnr_retry);
  if (has(IBV_QP_MAX_QP_RD_ATOMIC)) requester().SetReadsMax(from.max_rd_atomic);
  if (has(IBV_QP_EN_SQD_ASYNC_NOTIFY)) {
    drained_event_wanted_ = from.en_sqd_async_notify != 0;
  }
  if (has(IBV_QP_PATH_MIG_STATE)) SetMigrationState(from.path_mig_state);
}

void ConnectedQueuePair::Query(ibv_qp_attr& attributes,
                               ibv_qp_init_attr& init_attributes) {
  bool may_migrate;
  {
    BiasedLock::Guard lock(lock_);
    may_migrate = migration_.state() != IBV_MIG_MIGRATED;
  }
  // The peer's latest word about its path may not have been noticed yet.
  if (may_migrate) LookAtPath();
  BiasedLock::Guard lock(lock_);
  attributes = attributes_.values();
  attributes.qp_state = attributes.cur_qp_state = state_;
  attributes.sq_draining =
      state_ == IBV_QPS_SQD && !requester().drained() ? 1 : 0;
  attributes.path_mig_state = migration_.state();
  attributes.cap = init_attributes_.cap;
  init_attributes = init_attributes_;
}

// Does what each state asks for when it is entered. A queue pair that is in the
// state already has nothing to do.
std::optional<LinkMemory> ConnectedQueuePair::EnterState(ibv_qp_state to) {
  ibv_qp::state = to;  // The field that users see: what modify_qp set last.
  if (to == state_) return std::nullopt;
  switch (to) {
    case IBV_QPS_RESET:
      return Reset();
    case IBV_QPS_ERR:
      // A NIC has taken what has come by now, without being polled: requests
      // that the peer has executed are not flushed.
      if (Connected()) Drain();
      EnterError();
      return std::nullopt;
    case IBV_QPS_RTR:
      state_ = to;
      // Known before the link opens, because OpenLink() tells the peer.
      path_up_ = device_.port_states().IsActive(attributes_.values().port_num);
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

// Holds the requests that have not begun, and makes the peer ring for the
// others; or releases them and sends what has waited.
void ConnectedQueuePair::SetDraining(bool draining) {
  if (draining) {
    requester().Hold();
    checks_after_transmit_ = true;
    if (Connected() && asleep_ && link().sleep() != kAwake) {
      // Nobody waited for these acknowledgements until now. From here on they
      // ring; those that came before are read below.
      link().SetSleep(exchange_.WantedSleep());
      LinkEnd::FenceAfterSleep();
      if (!exchange_.ReadPeerWords()) EnterError(IBV_EVENT_QP_FATAL);
    }
    // The requests under way may be unhurried, and have rung nobody.
    if (Connected() && !requester().drained()) link().Insist();
    AfterTransmit();  // If nothing is under way, it is drained now.
    return;
  }
  requester().Release();
  drained_event_wanted_ = false;
  checks_after_transmit_ = requester().unreliable();
  idle_watch_.End();
  Transmit();
  HandleFailureOrNak();
  NotePeerState();
  TellEngine();
  device_.engine().Kick(this);
}

// Does what only few queue pairs need whenever something was sent or taken:
// unreliable ones, and those that drain.
void ConnectedQueuePair::AfterTransmit() {
  if (requester().unreliable()) requester().CompleteSent();
  if (drained_event_wanted_ && state_ == IBV_QPS_SQD && requester().drained()) {
    drained_event_wanted_ = false;
    RaiseEvent(IBV_EVENT_SQ_DRAINED);
  }
}

// The peer may send from now on, or has sent already: packets wait in the ring.
void ConnectedQueuePair::OpenLink() {
  if (!link().attached()) return;
  link().SetPath(migration_.word());
  link().SetState(path_up_ ? kLinkOpen : kLinkStalled);
  ServeLink();
  held_link_.Take();
}

void ConnectedQueuePair::ServeLink() {
  if (!Connected()) return;
  Sleep();  // The engine runs it until somebody polls.
  recv_cq_.queue_pairs().Return(this);
}

}  // namespace verbena::soft
