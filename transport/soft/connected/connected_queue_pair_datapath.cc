#include <cerrno>

#include "absl/base/optimization.h"
#include "transport/soft/connected/connected_queue_pair.h"
#include "transport/soft/device/soft_device.h"

namespace verbena::soft {
namespace {

// Polls since a completion queue was last armed after which the user counts as
// one that spins, and the peer need not ring any more. A user who wakes up,
// takes a few completions and arms again polls less often than this: then the
// peer goes on ringing. The count must stay small, because until it is reached
// each message rings, and each ring wakes a thread beside the one that spins.
constexpr uint32_t kPollsToWakeUp = 256;

}  // namespace

int ConnectedQueuePair::PostSend(ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  BiasedLock::Guard lock(lock_);
  return Post(wr, bad_wr);
}

int ConnectedQueuePair::PostAll(ibv_send_wr* chain) {
  BiasedLock::Guard lock(lock_);
  if (const int error = requester().CheckAll(chain); error != 0) return error;
  ibv_send_wr* bad_wr;
  return Post(chain, &bad_wr);
}

// Stores the requests, sends what can go, and tells the engine what is left to
// look after. ERR takes requests only to flush them; SQD keeps them until it is
// left.
inline int ConnectedQueuePair::Post(ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  if (state_ != IBV_QPS_RTS && state_ != IBV_QPS_ERR && state_ != IBV_QPS_SQD) {
    *bad_wr = wr;
    return EINVAL;
  }
  // While asleep nothing is sent before RingForAcks() below.
  LinkEnd* const open_link = Connected() && !asleep_ ? &link() : nullptr;
  const int error = requester().Post(wr, bad_wr, open_link);
  if (state_ == IBV_QPS_ERR) {
    requester().Flush();
    return error;
  }
  // Relaxed, because it is set with lock_ held.
  if (parking().parked.load(std::memory_order_relaxed)) {
    recv_cq_.queue_pairs().Return(this);
  }
  // Before the packets are sent, so that their acknowledgement rings.
  if (asleep_ && requester().awaits_acknowledgement()) RingForAcks();
  Transmit();
  if (ABSL_PREDICT_FALSE(HasFailureOrNak())) {
    HandleFailureOrNak();
  }
  // Polls must run the protocol to send the rest, even if the peer has nothing
  // new.
  if (requester().has_unsent()) idle_watch_.End();
  if (!Connected() || link().peer_state() != kLinkOpen) PostWithoutPeer();
  TellEngine();
  return error;
}

// Whether HandleFailureOrNak() has something to do.
inline bool ConnectedQueuePair::HasFailureOrNak() const {
  return exchange_.failed() || AnyQueueFailed() || exchange_.nak_received();
}

int ConnectedQueuePair::PostReceive(ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  BiasedLock::Guard lock(lock_);
  // With a shared queue it has no receives of its own.
  if (state_ == IBV_QPS_RESET || srq != nullptr) {
    *bad_wr = wr;
    return EINVAL;
  }
  const int error = receives_.own().Post(wr, bad_wr);
  if (state_ == IBV_QPS_ERR) responder().Flush();
  return error;
}

// Makes one pass of the protocol for a poll. A poll does not wait for another
// thread that has the lock, because the next poll makes the pass.
void ConnectedQueuePair::Run() {
  if (!lock_.try_lock()) return;
  RunLocked();
  lock_.unlock();
}

void ConnectedQueuePair::RunLocked() {
  if (asleep_ && !AnyQueueArmed() && ++polls_asleep_ >= kPollsToWakeUp) {
    WakeUp();
  }
  if (ABSL_PREDICT_FALSE(driven_.active() && asleep_)) {
    // The program may sleep after this poll, and the socket would not wake it
    // for what has been taken from it already.
    Drain();
  } else if (Progress()) {
    idle_watch_.End();  // The words that it watches have been dealt with.
  } else {
    WatchIfIdle();
  }
  TellEngine();
}

// Lets polls return without taking the lock until the peer has something new,
// unless there is something to do besides. With two completion queues, polls of
// either would look at the link's words, and WaitForPolls() waits only for
// those of the receive queue: so there is no watch then.
void ConnectedQueuePair::WatchIfIdle() {
  if (!Connected() || asleep_ || exchange_.has_unsent() ||
      &send_cq_ != &recv_cq_ || (driven_.active() && !driven_.may_be_idle())) {
    idle_watch_.End();
    return;
  }
  idle_watch_.Begin(link().watch());
}

// Takes packets first, because they carry the peer's progress as well. The word
// beside them is read only if none came.
bool ConnectedQueuePair::Progress() {
  if (!Connected()) return false;
  if (ABSL_PREDICT_FALSE(driven_.active())) ReceiveStream();
  const PacketExchange::Taken taken = exchange_.TakePackets();
  if (ABSL_PREDICT_FALSE(taken == PacketExchange::Taken::kBroken)) {
    EnterError(IBV_EVENT_QP_FATAL);
    return true;
  }
  const bool arrived = taken == PacketExchange::Taken::kPackets;
  if (!arrived) {
    if (!exchange_.ReadPeerWords()) {
      EnterError(IBV_EVENT_QP_FATAL);
      return false;
    }
    // After a pass that brought packets, an answer is likely to carry the
    // progress; after this one it is written to the word beside the packets.
    link().TellProgress();
  }
  Transmit();
  if (ABSL_PREDICT_FALSE(HasFailureOrNak())) {
    HandleFailureOrNak();
  }
  return arrived;
}

// Sends what there is to send. If the ring is full, and nobody polls, the peer
// must ring when it has made room.
void ConnectedQueuePair::Transmit() {
  if (!Connected()) return;
  bool more = exchange_.Transmit();
  if (checks_after_transmit_) AfterTransmit();
  if (ABSL_PREDICT_FALSE(driven_.active())) {
    more = SendStream(more);
  } else if (asleep_ && exchange_.has_unsent()) {
    AskForRoomSlow();
  }
  link().RingIfNeeded();
  // The next poll goes on where this pass has ended; when nobody polls, the
  // engine does.
  if (more && asleep_) device_.engine().Kick(this);
}

}  // namespace verbena::soft
