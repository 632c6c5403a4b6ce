#include "transport/soft/connected/connected_queue_pair.h"

#include <utility>

namespace verbena::soft {

ConnectedQueuePair::ConnectedQueuePair(SoftDevice& device,
                                       ProtectionDomain& domain,
                                       const ibv_qp_init_attr& attributes,
                                       NumberKind kind)
    : QueuePair(device, domain, attributes),
      notes_(device.engine().clock().Now()),
      receives_(domain, attributes),
      exchange_(
          {this, &send_cq_, &device.memory(), &device.windows(),
           &domain.original(), &device.engine().clock()},
          {this, &recv_cq_, &device.memory(), &device.windows(),
           &domain.original(), &receives_, attributes.qp_type == IBV_QPT_UC},
          attributes) {
  checks_after_transmit_ = requester().unreliable();
  // Last, because polls may run the queue pair from now on.
  Register(kind);
}

ConnectedQueuePair::~ConnectedQueuePair() {
  if (finder_ != nullptr) {
    // Otherwise the engine could still take a link that has just come, for a
    // queue pair that is being destroyed.
    const base::MutexLock modifying(modify_mutex_);
    finder_->Close();
  }
  // From here on the device does not call the queue pair any more, as it does
  // when the state of a port changes.
  Unregister();
  std::optional<LinkMemory> memory;  // Kept until no poll can look at it.
  {
    BiasedLock::Guard lock(lock_);
    receiving_ = false;
    memory = Detach();
  }
  device_.windows().ForgetQueuePair(this);
  // Nobody rings any more, so its socket may be closed.
  if (finder_ != nullptr) finder_->DropLink();
  DetachFromQueues();
}

void ConnectedQueuePair::AttachLink(LinkMemory memory, LinkSide side,
                                    int socket_fd,
                                    std::shared_ptr<LinkDriver> driver) {
  if (finder_ != nullptr) {
    finder_->RefuseOffers();
    // A program of others: the driver's own thread goes on moving its bytes.
    driver.reset();
  }
  UseLink(std::move(memory), side, socket_fd, std::move(driver));
}

void ConnectedQueuePair::ConnectManuallyAtOnce() {
  const base::MutexLock modifying(modify_mutex_);
  if (finder_ != nullptr) finder_->StopWaitingForReaders();
}

void ConnectedQueuePair::UseLink(LinkMemory memory, LinkSide side,
                                 int socket_fd,
                                 std::shared_ptr<LinkDriver> driver) {
  BiasedLock::Guard lock(lock_);
  link().Attach(std::move(memory), side, socket_fd);
  if (driver != nullptr) {
    driven_.Start(std::move(driver), this, recv_cq_,
                  /*watch=*/&send_cq_ == &recv_cq_);
  }
  if (CompletionChannel* const channel = recv_cq_.channel_or_null()) {
    link().SetBell(channel->bell(), qp_num);
  }
}

void ConnectedQueuePair::DetachLink() {
  std::optional<LinkMemory> memory;
  {
    BiasedLock::Guard lock(lock_);
    memory = Detach();
  }
  WaitForPolls();
}

std::optional<LinkMemory> ConnectedQueuePair::Detach() {
  idle_watch_.End();
  held_link_.GiveBack();
  driven_.Stop();
  if (!link().attached()) return std::nullopt;
  asleep_ = false;  // There is nobody left to ring, and nothing to wake up.
  return link().Detach();
}

// Afterwards no poll looks at the words of a link that was detached before; see
// idle_watch_.
void ConnectedQueuePair::WaitForPolls() {
  BiasedLock::Guard polls(polling_lock());
}

// Called after each pass of the protocol: the requester and the responder only
// note that they have failed, because the state belongs to the queue pair.
void ConnectedQueuePair::HandleFailureOrNak() {
  if (requester().failed()) {
    EnterError();
  } else if (responder().failed()) {
    EnterError(responder().event());
  } else if (AnyQueueFailed()) {
    EnterError(IBV_EVENT_QP_FATAL);
  }
  // A NAK has set a time at which a request is to be sent again.
  if (exchange_.TakeNakReceived() && asleep_) device_.engine().Kick(this);
}

// Ends what both queues hold, and only then tells the peer that the link is
// closed.
void ConnectedQueuePair::EnterError(std::optional<ibv_event_type> event) {
  if (state_ == IBV_QPS_ERR) return;
  state_ = IBV_QPS_ERR;
  receiving_ = false;
  idle_watch_.End();
  requester().Flush();
  responder().Flush();
  link().SetState(kLinkClosed);
  if (driven_.active()) driven_.Leave();
  if (event.has_value()) RaiseEvent(*event);
  // In ERR it takes nothing more from the shared queue, whose receives it does
  // not flush.
  if (srq != nullptr) RaiseEvent(IBV_EVENT_QP_LAST_WQE_REACHED);
}

// Makes the queue pair as it was when it was created. The link's memory
// outlives this call, because a poll may be looking at its words without the
// lock.
std::optional<LinkMemory> ConnectedQueuePair::Reset() {
  state_ = IBV_QPS_RESET;
  receiving_ = asleep_ = false;
  std::optional<LinkMemory> memory = Detach();
  receives_.own().Clear();
  // The queues first: a poll that took an old completion after the send ring
  // was emptied would free room that the next life of this queue pair has not
  // used.
  send_cq_.Purge(this);
  recv_cq_.Purge(this);
  requester().Reset();
  responder().Reset();
  attributes_ = QueuePairAttributes();
  checks_after_transmit_ = requester().unreliable();
  drained_event_wanted_ = false;
  give_up_at_ = TimePoint::max();
  given_up_ = false;
  migration_ = PathMigration();
  migration_refused_ = false;
  return memory;
}

void ConnectedQueuePair::OnPeerGone() {
  BiasedLock::Guard polls(polling_lock());  // GiveUp() takes packets.
  BiasedLock::Guard lock(lock_);
  if (state_ == IBV_QPS_RESET || state_ == IBV_QPS_ERR) return;
  GiveUp();
  EnterError();
}

// Runs on the engine's thread, which must not block: whoever holds the mutex
// may be in Modify() and wait for another process to take its offer of a link.
void ConnectedQueuePair::TakeAwaitedLink() {
  if (!modify_mutex_.try_lock()) {
    device_.engine().Kick(this);  // Tries again at the next tick.
    return;
  }
  UseAwaitedLink();
  modify_mutex_.unlock();
}

void ConnectedQueuePair::UseAwaitedLink() {
  if (!finder_->TakeAwaited()) return;
  BiasedLock::Guard polls(polling_lock());
  BiasedLock::Guard lock(lock_);
  if (!MayReceive()) return;
  OpenLink();
  NotePath();
}

// A NIC does not notice that its peer is gone: what was posted to receive stays
// posted, and what was sent ends when its retries are exceeded. So it does
// here, even though we know: other queue pairs may have news from the same peer
// that is still under way, and must not come behind that.
void ConnectedQueuePair::OnLinkEnd() {
  std::optional<LinkMemory> memory;  // Kept until the locks are released.
  {
    BiasedLock::Guard polls(polling_lock());
    BiasedLock::Guard lock(lock_);
    if (Connected()) Drain();  // Delivers what the peer had sent.
    if (state_ == IBV_QPS_RESET || state_ == IBV_QPS_ERR) return;
    const bool unused = !responder().met() && requester().unheard();
    memory = Detach();
    if (unused && finder_ != nullptr && finder_->AwaitAnother()) {
      requester().SendAllAgain();
    }
    NotePeerState();
    TellEngine();
  }
  // NotePeerState() may have set a deadline, and another link may be there.
  device_.engine().Kick(this);
}

}  // namespace verbena::soft
