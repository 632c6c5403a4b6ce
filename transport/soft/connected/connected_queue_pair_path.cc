// The way that packets take: by one port or, after migration, by another.
//
// Both ports lead to the same addresses, so a link stays what it is: a path
// that is down means that nothing goes into the link, or out of it, at this
// side. The peer is told, because what it sends is not answered.

#include "transport/soft/address/port_states.h"
#include "transport/soft/connected/connected_queue_pair.h"
#include "transport/soft/device/soft_device.h"

namespace verbena::soft {

void ConnectedQueuePair::SetMigrationState(ibv_mig_state to) {
  if (to == IBV_MIG_REARM) {
    migration_.Rearm();
    TellPeerOfMigration();
  } else if (migration_.armed()) {
    Migrate();
  }
}

void ConnectedQueuePair::TellPeerOfMigration() {
  if (!link().attached()) return;  // OpenLink() will tell it.
  link().SetPath(migration_.word());
  link().RingAlways();
}

void ConnectedQueuePair::Migrate() {
  migration_.Migrate();
  attributes_.UseAlternatePath();
  TellPeerOfMigration();
  RaiseEvent(IBV_EVENT_PATH_MIG);
}

bool ConnectedQueuePair::TryMigrate() {
  if (!device_.port_states().IsActive(attributes_.values().alt_port_num)) {
    return false;
  }
  Migrate();
  return true;
}

void ConnectedQueuePair::LookAtPath() {
  BiasedLock::Guard polls(polling_lock());
  BiasedLock::Guard lock(lock_);
  NotePath();
}

// First follows a peer that has migrated, then leaves a path whose port is
// down. If the alternate port is down as well, it can do neither: it says so
// once (PATH_MIG_ERR) and uses no path, until it is called when that port comes
// up.
void ConnectedQueuePair::NotePath() {
  if (!MayReceive()) return;
  bool follows = true;
  if (link().attached()) {
    switch (migration_.OnPeer(link().peer_path())) {
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
    lock_.AssertHeld();
    return device_.port_states().IsActive(attributes_.values().port_num);
  };
  const bool stays = !migration_.armed() || port_is_up() || TryMigrate();
  const bool refused = !follows || !stays;
  if (refused && !migration_refused_) RaiseEvent(IBV_EVENT_PATH_MIG_ERR);
  migration_refused_ = refused;
  SetPathUp(follows && port_is_up());
}

// The queue pair uses its link only while the path is up at both sides
// (receiving_).
void ConnectedQueuePair::SetPathUp(bool up) {
  if (up != path_up_) {
    path_up_ = up;
    link().SetState(up ? kLinkOpen : kLinkStalled);
    link().RingAlways();
  }
  const bool peer_stalls =
      link().attached() && link().peer_state() == kLinkStalled;
  if ((up && !peer_stalls) == receiving_) return;
  if (receiving_) {
    // The path is down at the peer's side alone, which sent this before.
    if (up && Connected()) Drain();
    receiving_ = false;
    idle_watch_.End();
    if (driven_.active()) driven_.Leave();
  } else {
    receiving_ = true;
    ServeLink();
  }
  // If the peer has sent a wrong packet, the queue pair has entered ERR.
  if (!MayReceive()) return;
  NotePeerState();
  HandleFailureOrNak();
  TellEngine();
  device_.engine().Kick(this);
}

// Called when the peer has not answered by this path for as long as the user
// allows. Tries the other path; returns false if there is none to try.
bool ConnectedQueuePair::LeavePath() {
  if (!migration_.armed() || !TryMigrate()) return false;
  give_up_at_ = TimePoint::max();
  NotePath();
  NotePeerState();
  return true;
}

}  // namespace verbena::soft
