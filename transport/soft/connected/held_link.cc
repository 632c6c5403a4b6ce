#include "transport/soft/connected/held_link.h"

#include <algorithm>
#include <utility>

#include "transport/soft/connected/connected_queue_pair.h"

namespace verbena::soft {

void HeldLink::Begin(Hold hold,
                     std::function<std::chrono::nanoseconds()> next_pause) {
  {
    BiasedLock::Guard polls(qp_.polling_lock());
    BiasedLock::Guard lock(qp_.lock_);
    lock_.AssertHeld();
    hold_ = hold;
    next_pause_ = std::move(next_pause);
    next_move_ = hold == Hold::kSlow ? TimePoint::min() : TimePoint::max();
    // Only a link that is cut lets the queue pair give up.
    if (hold != Hold::kCut) qp_.give_up_at_ = TimePoint::max();
    Take();
    qp_.NotePeerState();
    qp_.TellEngine();
  }
  qp_.device_.engine().Kick(&qp_);
}

// Gives the end back. If the queue pair may receive, opens the link anew and
// makes the peer look; if it has failed meanwhile, closes the link.
void HeldLink::Release() {
  {
    BiasedLock::Guard polls(qp_.polling_lock());
    BiasedLock::Guard lock(qp_.lock_);
    lock_.AssertHeld();
    if (hold_ == Hold::kNone) return;
    hold_ = Hold::kNone;
    if (end_.attached()) {
      GiveBack();
      if (qp_.MayReceive()) {
        qp_.OpenLink();
        qp_.link().RingAlways();
        qp_.NotePath();
      } else if (qp_.state_ == IBV_QPS_ERR) {
        // EnterError() has found no link to close.
        qp_.link().SetState(kLinkClosed);
      }
    }
    qp_.HandleFailureOrNak();
    qp_.NotePeerState();
    qp_.TellEngine();
  }
  qp_.device_.engine().Kick(&qp_);
}

// A link that is not open yet is taken when it opens.
void HeldLink::Take() {
  lock_.AssertHeld();
  qp_.lock_.AssertHeld();
  if (hold_ == Hold::kNone || !qp_.MayReceive()) return;
  if (qp_.link().attached()) TakeEnd();
  // To the peer a link that is cut looks like a path that is down, so it counts
  // its retries; one that is stalled or slow looks open, so it waits.
  end_.SetState(hold_ == Hold::kCut ? kLinkStalled : kLinkOpen);
  end_.RingAlways();
}

void HeldLink::TakeEnd() {
  qp_.lock_.AssertHeld();
  qp_.idle_watch_.End();
  qp_.asleep_ = false;  // OnTick() looks after the link, without a ring.
  end_ = std::exchange(qp_.link(), LinkEnd());
}

void HeldLink::GiveBack() {
  lock_.AssertHeld();
  qp_.lock_.AssertHeld();
  if (end_.attached()) qp_.link() = std::exchange(end_, LinkEnd());
}

// Makes one step of a slow link: lets the queue pair have it for one pass of
// the protocol.
void HeldLink::MoveOn(TimePoint now) {
  qp_.lock_.AssertHeld();
  next_move_ = now + next_pause_();
  if (!end_.attached()) return;
  GiveBack();
  qp_.NotePath();
  qp_.Progress();
  qp_.link().TellProgress();
  qp_.link().RingIfNeeded();
  qp_.NotePeerNow();
  if (qp_.MayReceive()) TakeEnd();
}

// Does the work of the engine that needs no link: lets requests run out of
// time, and a slow link move on.
HeldLink::TimePoint HeldLink::OnTick(TimePoint now) {
  BiasedLock::Guard polling(qp_.polling_lock());
  BiasedLock::Guard lock(qp_.lock_);
  lock_.AssertHeld();
  if (!qp_.MayReceive()) return TimePoint::max();
  if (now >= next_move_) MoveOn(now);
  qp_.HandleFailureOrNak();
  qp_.NotePeerState();
  if (now >= qp_.give_up_at_ && !qp_.LeavePath()) qp_.GiveUp();
  qp_.TellEngine();
  return qp_.MayReceive() ? std::min(next_move_, qp_.give_up_at_)
                          : TimePoint::max();
}

}  // namespace verbena::soft
