// The work of the engine for a queue pair that nobody polls, and how the queue
// pair goes to sleep and wakes up.

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "transport/soft/connected/connected_queue_pair.h"

namespace verbena::soft {
namespace {

// Polls between two looks of the engine by a user that spins: a fraction of
// those of a millisecond. One that sleeps in between polls less often.
constexpr uint32_t kPollsOfSpinner = 4096;

// How long the engine looks at a transfer that does not move before it goes to
// sleep over it. Longer than it takes to wake the peer on a busy machine: from
// then on both look, and neither has to be woken again.
constexpr std::chrono::milliseconds kServeFor(1);

// How long an unreliable queue pair keeps what has no room in the ring, or no
// ring yet, for a peer that is not ready: a connection to another host may have
// to be tried a few times.
constexpr std::chrono::milliseconds kPeerAwaitedFor(1000);

// How long a queue pair among many is polled for nothing before it is parked.
// Its next message then costs a doorbell, some 50 us: so little that it may
// happen this often, so much that it must not happen to one in use.
constexpr std::chrono::milliseconds kParkAfter(100);

// Passes in a row of one call, so that the engine's thread does not stay with
// one queue pair.
constexpr int kDrainPassesMax = 64;

}  // namespace

void ConnectedQueuePair::OnDoorbell() {
  BiasedLock::Guard polls(polling_lock());
  BiasedLock::Guard lock(lock_);
  AnswerRing();
}

// Anybody may have rung the bell, so the ring proves by the link's secret that
// it is the peer's.
void ConnectedQueuePair::AnswerBell(const WaiterBell::Ring& ring) {
  BiasedLock::Guard lock(lock_);
  if (!link().IsFromPeer(ring) || !asleep_) return;
  Progress();
  // If the queue is still armed, no completion has come of it, and the peer
  // must be asked to ring again. Otherwise the program polls next and arms the
  // queue again, and the peer need not be asked before that.
  if (recv_cq_.armed()) {
    AnswerRing();
  } else {
    TellEngine();
  }
}

// The peer has rung, and will not ring again before it is asked to, which
// Sleep() does. REQUIRES: the polling lock is held.
void ConnectedQueuePair::AnswerRing() {
  NotePath();
  if (!Connected()) return;
  driven_.TryActivate();
  if (parking().parked) recv_cq_.queue_pairs().Return(this);
  if (asleep_) Sleep();  // Otherwise somebody polls, and sees it without this.
  if (asleep_ && exchange_.TransferUnderWay()) {
    serve_until_ = device_.engine().clock().Now() + kServeFor;
    device_.engine().Kick(this);
  }
  NotePeerState();
  // The engine is to know of a deadline that this has set.
  if (NextTick(TimePoint::min()) != TimePoint::max()) {
    device_.engine().Kick(this);
  }
}

// Called when the process exits: the peer is told of everything that was
// executed, so that its requests do not fail.
void ConnectedQueuePair::Acknowledge() {
  BiasedLock::Guard lock(lock_);
  if (!Connected()) return;
  link().TellProgress();
  link().RingIfNeeded();
}

// The first half of arming a completion queue. Returns whether the peer is
// asked for something new: then the caller fences, and LookAgain() finds what
// came before.
bool ConnectedQueuePair::PrepareToSleep() {
  BiasedLock::Guard lock(lock_);
  if (!Connected()) return false;
  polls_asleep_ = 0;
  parks_ = ShouldSleepParked();
  // Nobody polls a queue pair that is parked, so everything must ring for the
  // engine.
  const uint32_t wanted = parks_ ? exchange_.WantedSleep() : WantedSleep();
  if (driven_.active()) {
    SleepOverStream();
    return false;
  }
  if (asleep_ && link().sleep() == wanted) return false;
  asleep_ = true;
  idle_watch_.End();
  link().SetSleep(wanted);
  return true;
}

bool ConnectedQueuePair::LookAgain() {
  BiasedLock::Guard lock(lock_);
  if (!Connected()) return false;
  const uint32_t before = link().position();
  Drain();
  // Somebody may have posted since PrepareToSleep().
  if (!parks_ || !Connected() || link().position() != before ||
      requester().has_unfinished()) {
    return false;
  }
  // Relaxed, because those who read it hold lock_ or the polling lock.
  parking().parked.store(true, std::memory_order_relaxed);
  return true;
}

// Whether the queue pair is one of many and has been silent for long. A program
// that sleeps polls a few times whenever it is woken, and each time it polls
// all queue pairs that are not parked.
bool ConnectedQueuePair::ShouldSleepParked() {
  if (!recv_cq_.queue_pairs().crowded() || &send_cq_ != &recv_cq_ ||
      requester().has_unfinished() || exchange_.TransferUnderWay()) {
    return false;
  }
  const TimePoint now = device_.engine().clock().Now();
  if (armed_there_since_ == TimePoint::min() ||
      armed_position_ != link().position()) {
    armed_position_ = link().position();
    armed_there_since_ = now;
  }
  return now - armed_there_since_ >= kParkAfter;
}

// If a program waits at a completion channel, unhurried packets ring there.
// While the queue is not armed they ring nobody, because the program will poll
// or arm before it can miss anything. In the middle of a transfer the engine
// serves, because a thread that waits would be woken for every piece.
uint32_t ConnectedQueuePair::WantedSleep() const {
  const LinkSleep wanted = exchange_.WantedSleep();
  if (&send_cq_ != &recv_cq_ || exchange_.TransferUnderWay()) return wanted;
  switch (recv_cq_.wait()) {
    case CompletionQueue::Wait::kForAny:
      return wanted | kBellOfWaiter;
    case CompletionQueue::Wait::kNotNow:
      return wanted | kBellOfWaiter | kBellRung;
    case CompletionQueue::Wait::kOther:
      break;
  }
  return wanted;
}

// Asks the peer to ring, then takes what it sent before it could know of that:
// see LinkEnd::FenceAfterSleep().
//
// The polls that were counted stay counted: while the user spins, a ring that
// the engine answers must not put off the moment when the queue pair wakes up.
void ConnectedQueuePair::Sleep() {
  if (!asleep_ || AnyQueueArmed()) polls_asleep_ = 0;
  driven_.TryActivate();
  if (driven_.active()) {
    SleepOverStream();
  } else {
    asleep_ = true;
    idle_watch_.End();
    link().SetSleep(WantedSleep());
    LinkEnd::FenceAfterSleep();
  }
  Drain();
}

// Asks the peer to ring for acknowledgements too, at the bell that it would
// ring for packets. No fence: what is to be acknowledged has not been sent yet.
void ConnectedQueuePair::RingForAcks() {
  const uint32_t sleep = link().sleep();
  if ((sleep & kSleepMask) != kSleepForPackets) return;
  link().SetSleep((sleep & ~kSleepMask) | kSleepForAcks);
}

// Something waits for room in the ring, or for the peer's answer, and nobody
// polls: makes the peer ring for that too, and looks once more.
void ConnectedQueuePair::AskForRoomSlow() {
  if (link().sleep() == kAwake) return;  // The peer has rung: the engine comes.
  link().SetSleep(kSleepForAcks);
  LinkEnd::FenceAfterSleep();
  exchange_.Transmit();
  // The packets that fill the ring may be unhurried and have rung nobody: then
  // nobody would make room.
  if (exchange_.has_unsent()) link().Insist();
}

void ConnectedQueuePair::WakeUp() {
  asleep_ = false;
  link().SetSleep(kAwake);
  if (driven_.active() && Connected()) driven_.WakeUp();
  // From now on the engine looks in now and then. If it does so already, it is
  // not kicked, because a kick is a system call and wakes the engine's thread.
  if (!std::exchange(engine_looks_, true)) device_.engine().Kick(this);
}

// Runs the protocol until nothing more arrives.
void ConnectedQueuePair::Drain() {
  if (ABSL_PREDICT_FALSE(driven_.active()) && StreamIsQuiet()) return;
  idle_watch_.End();
  for (int i = 0; i < kDrainPassesMax; ++i) {
    if (!Progress()) return;
  }
  device_.engine().Kick(this);
}

// Looks at the notes first, and takes the locks only if something may have to
// be done. A queue pair that is polled and gets answers is left to its poller.
EngineMember::TimePoint ConnectedQueuePair::OnTick(TimePoint now) {
  if (AwaitsLink()) TakeAwaitedLink();
  if (held_link_.active()) return held_link_.OnTick(now);
  const uint32_t polls = PollsSinceLastLook();
  const bool polled = polls > 0;
  if (polls < kPollsOfSpinner) notes_.NoteUnsteady(now);
  const EngineNotes::Look look = notes_.LookNow();
  const bool may_park = MayPark(now, look.nothing_unfinished) && polled;
  // The usual case: somebody polls, and the peer answers or has nothing to.
  if (polled && look.alive && !may_park && !AnyQueueFailed()) {
    return notes_.NextLook(now);
  }
  notes_.NoteUnsteady(now);
  BiasedLock::Guard polling(polling_lock());
  BiasedLock::Guard lock(lock_);
  if (may_park) TryPark();
  const TimePoint next = LookAfter(now, polled);
  engine_looks_ = next != TimePoint::max();
  return next;
}

// Whether the queue pair is one of many, and no packet has gone either way for
// long. `idle` is whether nothing is unfinished. The silence counts whether or
// not anybody has polled at each tick: the thread that polls may have lost its
// processor for some, which on a busy machine is the rule.
bool ConnectedQueuePair::MayPark(TimePoint now, bool idle) {
  const bool could =
      idle && recv_cq_.queue_pairs().crowded() && &send_cq_ == &recv_cq_;
  return notes_.SilentFor(now, could) >= kParkAfter;
}

// Parks the queue pair unless there is something to do after all. It goes to
// sleep first, so whatever comes from now on rings, and what came before is
// found by the second look in Sleep().
void ConnectedQueuePair::TryPark() {
  if (!Connected() || asleep_ || requester().has_unfinished() ||
      exchange_.TransferUnderWay()) {
    return;
  }
  const uint32_t before = link().position();
  Sleep();
  if (!Connected() || link().position() != before) return;
  // Nobody polls it from now on, so everything must ring for the engine.
  link().SetSleep(exchange_.WantedSleep());
  LinkEnd::FenceAfterSleep();
  Drain();
  if (Connected() && link().position() == before) {
    recv_cq_.queue_pairs().Park(this);
  }
}

// Does for the queue pair what polls do not: serves the link if nobody polls,
// rings for packets that rang nobody, and ends requests whose time is over.
EngineMember::TimePoint ConnectedQueuePair::LookAfter(TimePoint now,
                                                      bool polled) {
  if (!MayReceive()) return TimePoint::max();
  const bool moving = Connected() && (asleep_ || !polled) && Serve(now);
  HandleFailureOrNak();
  // The peer has not answered for a millisecond or more: what was sent to it
  // may have been unhurried, and have rung nobody.
  if (Connected() && !asleep_ && requester().has_unfinished()) link().Insist();
  NotePeerState();
  if (now >= give_up_at_ && !LeavePath()) GiveUp();
  TellEngine();
  return moving ? now : NextTick(now);
}

// Runs the protocol for a queue pair that nobody polls, which then sleeps,
// except in the middle of a transfer that moves: to be rung for every piece of
// it would cost far more than to look. Returns whether it is to be called again
// at once.
bool ConnectedQueuePair::Serve(TimePoint now) {
  const bool sound_asleep = asleep_ && link().sleep() != kAwake;
  if (sound_asleep && !exchange_.TransferUnderWay() && !stream_unfinished_ &&
      now < requester().resume_at()) {
    return false;
  }
  const uint32_t before = link().position();
  if (exchange_.TransferUnderWay() && now < serve_until_) {
    asleep_ = true;
    idle_watch_.End();
    link().SetSleep(kAwake);
    if (driven_.active()) driven_.WakeUp();
    Progress();
    if (Connected() && exchange_.TransferUnderWay()) {
      if (link().position() != before) {
        serve_until_ = now + kServeFor;
      } else if (!device_.engine().clock().manual()) {
        sched_yield();  // The peer may be waiting for this very processor.
      }
      return true;
    }
  }
  if (Connected()) Sleep();
  if (!Connected() || !exchange_.TransferUnderWay() ||
      link().position() == before) {
    return false;
  }
  serve_until_ = now + kServeFor;
  return true;
}

EngineMember::TimePoint ConnectedQueuePair::NextTick(TimePoint now) {
  if (!MayReceive()) return TimePoint::max();
  if (!Connected()) return give_up_at_;
  TimePoint next = std::min(give_up_at_, requester().resume_at());
  // While somebody polls, it looks whether they still do.
  if (!asleep_) next = std::min(next, now + EngineNotes::kLookInterval);
  return next;
}

// Delivers what the peer had sent before it went, then fails what is
// outstanding.
void ConnectedQueuePair::GiveUp() {
  Drain();
  give_up_at_ = TimePoint::max();
  // Nobody waits for an answer, so nothing fails.
  if (requester().unreliable()) {
    given_up_ = true;
    requester().DropUnsent();
    return;
  }
  requester().FailOldest(IBV_WC_RETRY_EXC_ERR);
  HandleFailureOrNak();
}

// Nobody acknowledges what was just posted: starts the time after which the
// queue pair gives up on the peer.
void ConnectedQueuePair::PostWithoutPeer() {
  NotePeerState();
  device_.engine().Kick(this);
}

void ConnectedQueuePair::NotePeerState() {
  if (!held_link_.HidesPeer()) NotePeerNow();
}

// Sets the time at which the queue pair gives up when requests wait for a peer
// that is not there, and takes it back when there is no reason any more. With
// the attribute `timeout` of 0 they wait for ever, as on a NIC.
void ConnectedQueuePair::NotePeerNow() {
  if (requester().unreliable()) {
    NotePeerOfUnreliable();
    return;
  }
  const bool alone = !Connected() || link().peer_state() != kLinkOpen;
  if (!alone || !requester().has_unfinished() ||
      (state_ != IBV_QPS_RTS && state_ != IBV_QPS_SQD)) {
    give_up_at_ = TimePoint::max();
  } else if (attributes_.values().timeout != 0 &&
             give_up_at_ == TimePoint::max()) {
    give_up_at_ =
        device_.engine().clock().Now() + attributes_.TransportTimeout();
  }
}

// On an unreliable connection a request has been sent even if it cannot arrive,
// so requests to a peer that is gone end at once. A peer that is not ready, or
// is still to make the link, will find in the ring what has room there. The
// rest is kept for it, though not long: by other means the two sides may have
// told each other already that they are ready.
void ConnectedQueuePair::NotePeerOfUnreliable() {
  const bool awaits = link().attached()
                          ? Connected() && link().peer_state() == kLinkNotReady
                          : AwaitsLink();
  const bool gone =
      !awaits && (!Connected() || link().peer_state() == kLinkClosed);
  if (!awaits) given_up_ = false;
  const bool waits =
      awaits && !given_up_ && state_ == IBV_QPS_RTS && requester().has_unsent();
  if (!waits) {
    give_up_at_ = TimePoint::max();
  } else if (give_up_at_ == TimePoint::max()) {
    give_up_at_ = device_.engine().clock().Now() + kPeerAwaitedFor;
  }
  if (state_ == IBV_QPS_RTS && (gone || given_up_)) requester().DropUnsent();
}

}  // namespace verbena::soft
