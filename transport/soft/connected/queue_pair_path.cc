// The way that packets take: by one port or, after migration, by another.
//
// Both ports lead to the same addresses, so a link stays what it is: a path
// that is down means that nothing goes into the link, or out of it, at this
// side. The peer is told, because what it sends is not answered.

#include "transport/soft/address/port_states.h"
#include "transport/soft/connected/queue_pair.h"
#include "transport/soft/device/soft_device.h"

namespace verbena::soft {

bool QueuePair::StateOfPathIsLegal(const ibv_qp_attr& attributes,
                                   int mask) const {
  const auto has = [mask](int bit) { return (mask & bit) != 0; };
  const uint8_t port =
      has(IBV_QP_PORT) ? attributes.port_num : attributes_.port_num;
  if (has(IBV_QP_AV) && attributes.ah_attr.port_num != port) return false;
  if (!has(IBV_QP_PATH_MIG_STATE)) return true;
  // Without an alternate path there is nothing to be armed for.
  const bool loaded = has(IBV_QP_ALT_PATH) || attributes_.alt_port_num != 0;
  return migration_.MayEnter(attributes.path_mig_state) &&
         (loaded || attributes.path_mig_state == IBV_MIG_MIGRATED);
}

void QueuePair::SetMigrationState(ibv_mig_state to) {
  if (to == IBV_MIG_REARM) {
    migration_.Rearm();
    TellPeerOfMigration();
  } else if (migration_.armed()) {
    Migrate();
  }
}

void QueuePair::TellPeerOfMigration() {
  if (!port_.attached()) return;  // OpenLink() will.
  port_.SetPath(migration_.word());
  port_.RingAlways();
}

void QueuePair::Migrate() {
  migration_.Migrate();
  attributes_.ah_attr = attributes_.alt_ah_attr;
  attributes_.port_num = attributes_.alt_port_num;
  attributes_.pkey_index = attributes_.alt_pkey_index;
  attributes_.timeout = attributes_.alt_timeout;
  TellPeerOfMigration();
  RaiseEvent(IBV_EVENT_PATH_MIG);
}

bool QueuePair::TryMigrate() {
  if (!device_.port_states().IsActive(attributes_.alt_port_num)) return false;
  Migrate();
  return true;
}

void QueuePair::LookAtPath() {
  BiasedLock::Guard polls(recv_cq_.polling_lock());
  BiasedLock::Guard lock(lock_);
  NotePath();
}

void QueuePair::NotePath() {
  if (!MayReceive()) return;
  bool follows = true;
  if (port_.attached()) {
    switch (migration_.OnPeer(port_.peer_path())) {
      case PathMigration::Peer::kNothing:
        break;
      case PathMigration::Peer::kHasMigrated:
        follows = TryMigrate();
        break;
      case PathMigration::Peer::kGarbage:
        EnterError(IBV_EVENT_QP_FATAL);
        return;
    }
  }
  const auto port_is_up = [this] {
    return device_.port_states().IsActive(attributes_.port_num);
  };
  const bool stays = !migration_.armed() || port_is_up() || TryMigrate();
  const bool refused = !follows || !stays;
  if (refused && !migration_refused_) RaiseEvent(IBV_EVENT_PATH_MIG_ERR);
  migration_refused_ = refused;
  SetPathUp(follows && port_is_up());
}

void QueuePair::SetPathUp(bool up) {
  if (up != path_up_) {
    path_up_ = up;
    port_.SetState(up ? kLinkOpen : kLinkStalled);
    port_.RingAlways();
  }
  const bool peer_stalls =
      port_.attached() && port_.peer_state() == kLinkStalled;
  if ((up && !peer_stalls) == receiving_) return;
  if (receiving_) {
    if (up && Connected()) Drain();  // What the peer sent while it could.
    receiving_ = false;
    Unsettle();
  } else {
    receiving_ = true;
    ServeLink();
  }
  if (!MayReceive()) return;  // Something was wrong with what came.
  NotePeerState();
  SettleFailures();
  TellEngine();
  device_.engine().Kick(this);
}

// What was sent this way has not been answered for as long as the user allows.
bool QueuePair::LeavePath() {
  if (!migration_.armed() || !TryMigrate()) return false;
  give_up_at_ = TimePoint::max();
  NotePath();
  NotePeerState();
  return true;
}

}  // namespace verbena::soft
