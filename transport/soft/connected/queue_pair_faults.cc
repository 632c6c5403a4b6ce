// Faults for tests: a link that is held.
//
// The port of a link that is held is put aside, so that the data path finds a
// queue pair without a link, and pays nothing for the possibility.

#include <algorithm>
#include <utility>

#include "transport/soft/connected/queue_pair.h"
#include "transport/soft/device/soft_device.h"

namespace verbena::soft {

void QueuePair::HoldLink(LinkHold hold,
                         std::function<std::chrono::nanoseconds()> next_pause) {
  {
    BiasedLock::Guard polls(recv_cq_.polling_lock());
    BiasedLock::Guard lock(lock_);
    hold_ = hold;
    next_pause_ = std::move(next_pause);
    next_move_ = hold == LinkHold::kSlow ? TimePoint::min() : TimePoint::max();
    if (hold != LinkHold::kCut) give_up_at_ = TimePoint::max();
    PutLinkAside();
    NotePeerState();
    TellEngine();
  }
  device_.engine().Kick(this);
}

void QueuePair::ReleaseLink() {
  {
    BiasedLock::Guard polls(recv_cq_.polling_lock());
    BiasedLock::Guard lock(lock_);
    if (hold_ == LinkHold::kNone) return;
    hold_ = LinkHold::kNone;
    if (link_aside_.attached()) {
      port_ = std::exchange(link_aside_, LinkPort());
      if (MayReceive()) {
        OpenLink();
        port_.RingAlways();
        NotePath();
      } else if (state_ == IBV_QPS_ERR) {
        port_.SetState(kLinkClosed);
      }
    }
    SettleFailures();
    NotePeerState();
    TellEngine();
  }
  device_.engine().Kick(this);
}

// One that is not open yet is put aside when it opens.
void QueuePair::PutLinkAside() {
  if (!MayReceive()) return;
  if (port_.attached()) TakePortAway();
  // Its peer is to count its retries, or not.
  link_aside_.SetState(hold_ == LinkHold::kCut ? kLinkStalled : kLinkOpen);
  link_aside_.RingAlways();
}

void QueuePair::TakePortAway() {
  Unsettle();
  asleep_ = false;  // The engine looks after it.
  link_aside_ = std::exchange(port_, LinkPort());
}

// One step of a slow link.
void QueuePair::MoveHeldLink(TimePoint now) {
  next_move_ = now + next_pause_();
  if (!link_aside_.attached()) return;
  port_ = std::exchange(link_aside_, LinkPort());
  NotePath();
  Progress();
  port_.TellProgress();
  port_.RingIfNeeded();
  NotePeerNow();
  if (MayReceive()) TakePortAway();
}

EngineMember::TimePoint QueuePair::TickHeld(TimePoint now) {
  BiasedLock::Guard polling(recv_cq_.polling_lock());
  BiasedLock::Guard lock(lock_);
  if (!MayReceive()) return TimePoint::max();
  if (now >= next_move_) MoveHeldLink(now);
  SettleFailures();
  NotePeerState();
  if (now >= give_up_at_ && !LeavePath()) GiveUp();
  TellEngine();
  return MayReceive() ? std::min(next_move_, give_up_at_) : TimePoint::max();
}

void QueuePair::ForceReceiverNotReady(uint32_t times) {
  BiasedLock::Guard lock(lock_);
  responder_.ForceNotReady(times);
}

}  // namespace verbena::soft
