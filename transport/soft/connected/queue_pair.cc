#include "transport/soft/connected/queue_pair.h"

#include <sched.h>

#include <cerrno>
#include <utility>

#include "transport/base/check.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/connected/queue_pair_state.h"
#include "transport/soft/device/soft_device.h"

namespace verbena::soft {
namespace {

// How often the engine looks whether a queue pair is still being polled.
constexpr std::chrono::milliseconds kLookInterval(1);

// How long the engine looks at a transfer that does not move before it goes to
// sleep over it. Longer than it takes to wake the peer on a busy machine: from
// then on both look, and neither has to be woken again.
constexpr std::chrono::milliseconds kServeFor(1);

// How long an unreliable queue pair keeps what was sent for a link that the
// peer is to make: a connection to another host, tried again a few times.
constexpr std::chrono::milliseconds kLinkAwaitedFor(1000);

// How long a queue pair among many is polled for nothing before it is parked.
// Its next message then costs a doorbell, some 50 us: so little that it may
// happen this often, so much that it must not happen to one in use.
constexpr std::chrono::milliseconds kParkAfter(100);

// Passes in a row of one call on the engine's thread.
constexpr int kDrainPassesMax = 64;

}  // namespace

std::unique_ptr<QueuePair> QueuePair::Create(SoftDevice& device,
                                             ProtectionDomain& pd,
                                             ibv_qp_init_attr& attributes) {
  if (attributes.qp_type != IBV_QPT_RC && attributes.qp_type != IBV_QPT_UC) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  if (const int error = CheckInitAttributes(pd, attributes); error != 0) {
    errno = error;
    return nullptr;
  }
  std::unique_ptr<QueuePair> qp(new QueuePair(device, pd, attributes));
  if (qp->qp_num == 0) {
    errno = ENOMEM;
    return nullptr;
  }
  return qp;
}

QueuePair::QueuePair(SoftDevice& device, ProtectionDomain& domain,
                     const ibv_qp_init_attr& attributes)
    : QueuePairHandle(domain, attributes),
      device_(device),
      init_attributes_(attributes),
      send_cq_(*CompletionQueue::From(attributes.send_cq)),
      recv_cq_(*CompletionQueue::From(attributes.recv_cq)),
      silent_since_(device.engine().clock().Now()),
      receive_queue_(attributes.cap.max_recv_wr, attributes.cap.max_recv_sge),
      requester_({this, this, &send_cq_, &device.memory(), &device.windows(),
                  &domain.original(), &device.engine().clock()},
                 attributes),
      responder_({this, this, &recv_cq_, &device.memory(), &device.windows(),
                  &domain.original(),
                  attributes.srq == nullptr
                      ? nullptr
                      : SharedReceiveQueue::From(attributes.srq),
                  &receive_queue_, attributes.qp_type == IBV_QPT_UC}) {
  watched_ = requester_.unreliable();
  qp_num = device_.queue_pairs().Add(this);
  send_cq_.Attach(this);
  recv_cq_.Attach(this);
}

QueuePair::~QueuePair() {
  if (qp_num != 0) device_.queue_pairs().Remove(qp_num);
  {
    // Or the engine takes a link that has just come, for one that is going.
    std::lock_guard<std::mutex> modifying(modify_mutex_);
    awaits_link_ = false;
  }
  std::optional<LinkMemory> memory;  // Until no poll can look at it.
  {
    BiasedLock::Guard lock(lock_);
    receiving_ = false;
    memory = Detach();
  }
  device_.windows().ForgetQueuePair(this);
  // Nobody rings any more, so its socket may be closed.
  hand_link_.reset();
  if (is_engine_member_) device_.engine().RemoveMember(this);
  send_cq_.Detach(this);
  recv_cq_.Detach(this);
  Context::From(context)->async_events().Forget(async_source_);
}

void QueuePair::AttachLink(LinkMemory memory, LinkSide side, int socket_fd) {
  BiasedLock::Guard lock(lock_);
  port_.Attach(std::move(memory), side, socket_fd);
}

void QueuePair::DetachLink() {
  std::optional<LinkMemory> memory;
  {
    BiasedLock::Guard lock(lock_);
    memory = Detach();
  }
  WaitForPolls();
}

std::optional<LinkMemory> QueuePair::Detach() {
  Unsettle();
  if (link_aside_.attached()) port_ = std::exchange(link_aside_, LinkPort());
  if (!port_.attached()) return std::nullopt;
  asleep_ = false;  // There is nobody left to ring, and nothing to wake up.
  return port_.Detach();
}

// Afterwards no poll looks at the words of a link that was detached before; see
// settled_.
void QueuePair::WaitForPolls() {
  BiasedLock::Guard polls(recv_cq_.polling_lock());
}

void QueuePair::OnDoorbell() {
  BiasedLock::Guard polls(recv_cq_.polling_lock());
  BiasedLock::Guard lock(lock_);
  NotePath();
  if (!Connected()) return;
  if (parking_.parked) recv_cq_.Return(this);
  if (asleep_) Sleep();  // Otherwise somebody polls, and has seen it already.
  if (asleep_ && TransferUnderWay()) {
    serve_until_ = device_.engine().clock().Now() + kServeFor;
    device_.engine().Kick(this);
  }
  NotePeerState();
  if (NextTick(TimePoint::min()) != TimePoint::max())
    device_.engine().Kick(this);
}

void QueuePair::OnPeerGone() {
  BiasedLock::Guard polls(recv_cq_.polling_lock());
  BiasedLock::Guard lock(lock_);
  if (state_ == IBV_QPS_RESET || state_ == IBV_QPS_ERR) return;
  GiveUp();
  EnterError(-1);
}

void QueuePair::Acknowledge() {
  BiasedLock::Guard lock(lock_);
  if (!Connected()) return;
  port_.TellProgress();
  port_.RingIfNeeded();
}

// Delivers what the peer had sent before it went, then fails what is
// outstanding.
void QueuePair::GiveUp() {
  Drain();
  give_up_at_ = TimePoint::max();
  if (requester_.unreliable()) {
    requester_.DropUnsent();
    return;
  }
  requester_.FailOldest(IBV_WC_RETRY_EXC_ERR);
  SettleFailures();
}

bool QueuePair::PrepareToSleep() {
  BiasedLock::Guard lock(lock_);
  if (!Connected()) return false;
  polls_asleep_ = 0;
  if (asleep_ && port_.sleep() >= WantedSleep()) return false;
  asleep_ = true;
  Unsettle();
  port_.SetSleep(WantedSleep());
  return true;
}

void QueuePair::LookAgain() {
  BiasedLock::Guard lock(lock_);
  if (Connected()) Drain();
}

LinkSleep QueuePair::WantedSleep() const {
  return requester_.wants_progress() || responder_.wants_progress()
             ? kSleepForAcks
             : kSleepForPackets;
}

void QueuePair::Sleep() {
  asleep_ = true;
  polls_asleep_ = 0;
  Unsettle();
  port_.SetSleep(WantedSleep());
  LinkPort::FenceAfterSleep();
  Drain();
}

// Something waits for room in the ring, or for the peer's answer, and nobody
// polls: makes the peer ring for that too, and looks once more.
void QueuePair::AskForRoomSlow() {
  if (port_.sleep() == kAwake) return;  // It has rung: the engine comes.
  port_.SetSleep(kSleepForAcks);
  LinkPort::FenceAfterSleep();
  TransmitPass();
}

void QueuePair::WakeUp() {
  asleep_ = false;
  port_.SetSleep(kAwake);
  device_.engine().Kick(this);  // It looks after us while we are awake.
}

// Runs the protocol until nothing more arrives.
void QueuePair::Drain() {
  Unsettle();
  for (int i = 0; i < kDrainPassesMax; ++i) {
    if (!Progress()) return;
  }
  device_.engine().Kick(this);
}

void QueuePair::SettleFailures() {
  if (requester_.failed()) {
    EnterError(-1);
  } else if (responder_.failed()) {
    EnterError(responder_.event());
  } else if (send_cq_.failed() || recv_cq_.failed()) {
    EnterError(IBV_EVENT_QP_FATAL);
  }
  if (kick_wanted_ && asleep_) device_.engine().Kick(this);
  kick_wanted_ = false;
}

// Nobody acknowledges what was just posted: starts the clock.
void QueuePair::PostWithoutPeer() {
  NotePeerState();
  device_.engine().Kick(this);
}

// What the user asked for: each try waits 4.096 us * 2^timeout; 0 is for ever.
std::chrono::nanoseconds QueuePair::TransportTimeout() const {
  return std::chrono::nanoseconds(int64_t{4096} << attributes_.timeout) *
         (attributes_.retry_cnt + 1);
}

void QueuePair::NotePeerState() {
  // A slow link knows whether its peer is there only while it moves.
  if (hold_ == LinkHold::kStalled || hold_ == LinkHold::kSlow) return;
  NotePeerNow();
}

// Starts the clock when requests wait for a peer that is not there, and stops
// it when there is no reason any more.
void QueuePair::NotePeerNow() {
  if (requester_.unreliable()) {
    NotePeerOfUnreliable();
    return;
  }
  const bool alone = !Connected() || port_.peer_state() != kLinkOpen;
  if (!alone || !requester_.has_unfinished() ||
      (state_ != IBV_QPS_RTS && state_ != IBV_QPS_SQD)) {
    give_up_at_ = TimePoint::max();
  } else if (attributes_.timeout != 0 && give_up_at_ == TimePoint::max()) {
    give_up_at_ = device_.engine().clock().Now() + TransportTimeout();
  }
}

// What cannot arrive has been sent all the same. A peer that is not ready yet
// finds in the ring what has room there. A link that is on its way is
// waited for, though not long: the two sides may have told each other that they
// are ready while it was.
void QueuePair::NotePeerOfUnreliable() {
  const bool awaits = !port_.attached() && awaits_link_;
  const bool gone = !Connected() || port_.peer_state() == kLinkClosed;
  if (!awaits || !requester_.has_unsent() || state_ != IBV_QPS_RTS) {
    give_up_at_ = TimePoint::max();
  }
  if (state_ != IBV_QPS_RTS) return;
  if (!awaits) {
    if (gone) requester_.DropUnsent();
  } else if (requester_.has_unsent() && give_up_at_ == TimePoint::max()) {
    give_up_at_ = device_.engine().clock().Now() + kLinkAwaitedFor;
  }
}

EngineMember::TimePoint QueuePair::OnTick(TimePoint now) {
  if (awaits_link_.load(std::memory_order_relaxed)) TakeAwaitedLink();
  if (hold_ != LinkHold::kNone) return TickHeld(now);
  const uint32_t polls = polls_.load(std::memory_order_relaxed);
  const bool polled = polls != polls_seen_;
  polls_seen_ = polls;
  const uint64_t ended = requests_ended_.load(std::memory_order_relaxed);
  const bool alive = ended == kNothingUnfinished ||
                     (ended != kDeadlineSet && ended != requests_ended_seen_);
  requests_ended_seen_ = ended;
  const bool may_park = MayPark(now, polled && ended == kNothingUnfinished);
  // The usual case: somebody polls, and the peer answers or has nothing to.
  if (polled && alive && !may_park && !send_cq_.failed() &&
      !recv_cq_.failed()) {
    return now + kLookInterval;
  }
  BiasedLock::Guard polling(recv_cq_.polling_lock());
  BiasedLock::Guard lock(lock_);
  if (may_park) TryPark();
  return LookAfter(now, polled);
}

// Whether it has been polled for long without a packet either way, together
// with many others. `idle` is whether that holds since the last tick but for
// packets.
bool QueuePair::MayPark(TimePoint now, bool idle) {
  const uint32_t activity = activity_.load(std::memory_order_relaxed);
  if (!idle || activity != activity_seen_ || !recv_cq_.crowded() ||
      &send_cq_ != &recv_cq_) {
    activity_seen_ = activity;
    silent_since_ = now;
    return false;
  }
  return now - silent_since_ >= kParkAfter;
}

// With the polling lock held. It sleeps, so whatever comes from now on rings;
// what came before is found by Sleep()'s second look.
void QueuePair::TryPark() {
  if (!Connected() || asleep_ || requester_.has_unfinished() ||
      TransferUnderWay()) {
    return;
  }
  const uint32_t before = port_.position();
  Sleep();
  if (Connected() && port_.position() == before) recv_cq_.Park(this);
}

EngineMember::TimePoint QueuePair::LookAfter(TimePoint now, bool polled) {
  if (!MayReceive()) return TimePoint::max();
  const bool moving = Connected() && (asleep_ || !polled) && Serve(now);
  SettleFailures();
  NotePeerState();
  if (now >= give_up_at_ && !LeavePath()) GiveUp();
  TellEngine();
  return moving ? now : NextTick(now);
}

// Whether the peer is likely to send more, or to make room, at any moment.
bool QueuePair::TransferUnderWay() const {
  return responder_.wants_progress() || responder_.in_message() ||
         requester_.reads_under_way() ||
         (requester_.has_unsent() &&
          requester_.resume_at() == TimePoint::max());
}

// For a queue pair that nobody polls. Sleeps, except in the middle of a
// transfer that moves: to be rung for every piece of it would cost far more
// than to look. Whether to be called again at once.
bool QueuePair::Serve(TimePoint now) {
  const bool sound_asleep = asleep_ && port_.sleep() != kAwake;
  if (sound_asleep && !TransferUnderWay() && now < requester_.resume_at()) {
    return false;
  }
  const uint32_t before = port_.position();
  if (TransferUnderWay() && now < serve_until_) {
    asleep_ = true;
    Unsettle();
    port_.SetSleep(kAwake);
    Progress();
    if (Connected() && TransferUnderWay()) {
      if (port_.position() != before) {
        serve_until_ = now + kServeFor;
      } else {
        sched_yield();  // The peer may be waiting for this very processor.
      }
      return true;
    }
  }
  if (Connected()) Sleep();
  if (!Connected() || !TransferUnderWay() || port_.position() == before) {
    return false;
  }
  serve_until_ = now + kServeFor;
  return true;
}

EngineMember::TimePoint QueuePair::NextTick(TimePoint now) {
  if (!MayReceive()) return TimePoint::max();
  if (!Connected()) return give_up_at_;
  TimePoint next = std::min(give_up_at_, requester_.resume_at());
  // While somebody polls: to see whether they still do.
  if (!asleep_) next = std::min(next, now + kLookInterval);
  return next;
}

void QueuePair::RaiseEvent(int type) {
  Context::From(context)->async_events().Raise(
      {&async_source_, static_cast<ibv_qp*>(this), type});
}

void QueuePair::EnterError(int event) {
  if (state_ == IBV_QPS_ERR) return;
  state_ = IBV_QPS_ERR;
  receiving_ = false;
  Unsettle();
  requester_.Flush();
  responder_.Flush();
  port_.SetState(kLinkClosed);
  if (event >= 0) RaiseEvent(event);
  if (srq != nullptr) RaiseEvent(IBV_EVENT_QP_LAST_WQE_REACHED);
}

std::optional<LinkMemory> QueuePair::Reset() {
  state_ = IBV_QPS_RESET;
  receiving_ = asleep_ = false;
  std::optional<LinkMemory> memory = Detach();
  receive_queue_.Clear();
  requester_.Reset();
  responder_.Reset();
  send_cq_.Purge(this);
  recv_cq_.Purge(this);
  attributes_ = {};
  watched_ = requester_.unreliable();
  drained_event_wanted_ = false;
  give_up_at_ = TimePoint::max();
  migration_ = PathMigration();
  migration_refused_ = false;
  return memory;
}

}  // namespace verbena::soft
