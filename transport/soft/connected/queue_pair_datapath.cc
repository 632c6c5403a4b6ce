#include <cerrno>

#include "transport/soft/connected/queue_pair.h"
#include "transport/soft/device/soft_device.h"

namespace verbena::soft {
namespace {

// Bounds of one pass, so that no queue pair of a completion queue starves. Few
// packets, so that the user answers the first while the peer still sends the
// last: two sides that take all there is take turns instead.
constexpr int kPacketsPerPass = 8;
constexpr uint32_t kBytesPerPass = 4 * kSegmentBytes;
constexpr int kTransmitsPerPass = 64;

// A user who wakes up, takes a few completions and arms again polls less often
// than this: then the peer goes on ringing. One who spins is awake for good.
constexpr uint32_t kPollsToWakeUp = 64;

}  // namespace

int QueuePair::PostSend(ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  BiasedLock::Guard lock(lock_);
  return Post(wr, bad_wr);
}

int QueuePair::PostAll(ibv_send_wr* chain) {
  BiasedLock::Guard lock(lock_);
  if (const int error = requester_.CheckAll(chain); error != 0) return error;
  ibv_send_wr* bad_wr;
  return Post(chain, &bad_wr);
}

inline int QueuePair::Post(ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  if (state_ != IBV_QPS_RTS && state_ != IBV_QPS_ERR && state_ != IBV_QPS_SQD) {
    *bad_wr = wr;
    return EINVAL;
  }
  LinkPort* const port = Connected() && !asleep_ ? &port_ : nullptr;
  const int error = requester_.Post(wr, bad_wr, port);
  if (state_ == IBV_QPS_ERR) {
    requester_.Flush();
    return error;
  }
  if (parking_.parked.load(std::memory_order_relaxed)) recv_cq_.Return(this);
  if (asleep_ && port_.sleep() == kSleepForPackets) {
    // Before the packet is sent, so that its acknowledgement rings.
    port_.SetSleep(WantedSleep());
  }
  Transmit();
  if (MustSettle()) [[unlikely]]
    SettleFailures();
  if (requester_.has_unsent()) Unsettle();
  if (!Connected() || port_.peer_state() != kLinkOpen) PostWithoutPeer();
  TellEngine();
  return error;
}

// Whether SettleFailures() has something to do.
inline bool QueuePair::MustSettle() const {
  return requester_.failed() || responder_.failed() || send_cq_.failed() ||
         recv_cq_.failed() || kick_wanted_;
}

int QueuePair::PostReceive(ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  BiasedLock::Guard lock(lock_);
  if (state_ == IBV_QPS_RESET || srq != nullptr) {
    *bad_wr = wr;
    return EINVAL;
  }
  const int error = receive_queue_.Post(wr, bad_wr);
  if (state_ == IBV_QPS_ERR) responder_.Flush();
  return error;
}

void QueuePair::Poll() {
  // Several threads may poll; a lost count does no harm.
  polls_.store(polls_.load(std::memory_order_relaxed) + 1,
               std::memory_order_relaxed);
  if (settled_.load(std::memory_order_acquire) &&
      watched_stamp_.load(std::memory_order_relaxed)
              ->load(std::memory_order_relaxed) !=
          stamp_awaited_.load(std::memory_order_relaxed) &&
      watched_progress_.load(std::memory_order_relaxed)
              ->load(std::memory_order_relaxed) ==
          progress_seen_.load(std::memory_order_relaxed)) {
    return;
  }
  if (!lock_.try_lock()) return;
  if (asleep_ && !AnyQueueArmed() && ++polls_asleep_ >= kPollsToWakeUp) {
    WakeUp();
  }
  if (Progress()) {
    Unsettle();  // What it watches is behind us.
  } else {
    Settle();
  }
  TellEngine();
  lock_.unlock();
}

void QueuePair::TellEngine() {
  uint64_t ended = requester_.ended();
  if (give_up_at_ != TimePoint::max() ||
      requester_.resume_at() != TimePoint::max()) {
    ended = kDeadlineSet;
  } else if (!requester_.has_unfinished()) {
    ended = kNothingUnfinished;
  }
  requests_ended_.store(ended, std::memory_order_relaxed);
  activity_.store(port_.position(), std::memory_order_relaxed);
}

// Lets polls return without taking the lock until the peer has something new,
// unless there is something to do besides.
void QueuePair::Settle() {
  if (!Connected() || asleep_ || requester_.has_unsent() ||
      responder_.wants_progress() || &send_cq_ != &recv_cq_) {
    Unsettle();
    return;
  }
  const LinkPort::Watch watch = port_.watch();
  watched_stamp_.store(watch.stamp, std::memory_order_relaxed);
  stamp_awaited_.store(watch.stamp_awaited, std::memory_order_relaxed);
  watched_progress_.store(watch.progress, std::memory_order_relaxed);
  progress_seen_.store(watch.progress_seen, std::memory_order_relaxed);
  settled_.store(true, std::memory_order_release);
}

bool QueuePair::Progress() {
  if (!Connected()) return false;
  const bool arrived = HandleIncoming();
  if (!Connected()) return arrived;
  if (!arrived) {
    if (!ReadPeerWords()) {
      EnterError(IBV_EVENT_QP_FATAL);
      return false;
    }
    port_.TellProgress();
  }
  Transmit();
  if (MustSettle()) [[unlikely]]
    SettleFailures();
  return arrived;
}

bool QueuePair::HandleIncoming() {
  Packet packet;
  uint32_t bytes = 0;
  for (int i = 0; i < kPacketsPerPass && bytes < kBytesPerPass; ++i) {
    const LinkPort::Incoming incoming = port_.Peek(packet);
    if (incoming == LinkPort::Incoming::kNothing) return i != 0;
    if (incoming == LinkPort::Incoming::kBroken || !HandlePacket(packet))
        [[unlikely]] {
      EnterError(IBV_EVENT_QP_FATAL);
      return true;
    }
    if (!receiving_) return true;
    bytes += packet.payload_bytes;
    port_.Consume(packet);
    port_.set_executed(responder_.executed());
    if (port_.ShouldTellProgress()) port_.TellProgress();
  }
  return true;
}

// False when a correct peer cannot have sent it.
inline bool QueuePair::HandlePacket(const Packet& packet) {
  switch (packet.kind) {
    case PacketKind::kReadResponse:
      return requester_.OnReadResponse(packet) &&
             requester_.OnExecuted(packet.executed);
    case PacketKind::kNak:
      if (!requester_.OnNak(packet)) return false;
      kick_wanted_ = true;
      return true;
    default:
      return requester_.OnExecuted(packet.executed) &&
             responder_.OnPacket(packet);
  }
}

bool QueuePair::ReadPeerWords() {
  uint32_t executed = 0;
  return port_.ReadPeerProgress(executed) && requester_.OnExecuted(executed);
}

// Sends what there is to send.
void QueuePair::Transmit() {
  if (!Connected()) return;
  const int sent = TransmitPass();
  if (watched_) AfterTransmit();
  if (asleep_ && (requester_.has_unsent() || responder_.wants_progress())) {
    AskForRoomSlow();
  }
  port_.RingIfNeeded();
  // Whoever polls goes on with the next pass; when nobody does, the engine.
  if (sent == kTransmitsPerPass && asleep_) device_.engine().Kick(this);
}

// Responses and requests take turns: neither may hold up the other. Returns how
// many turns there were.
int QueuePair::TransmitPass() {
  int sent = 0;
  for (bool more = true; more && sent < kTransmitsPerPass; ++sent) {
    more = responder_.wants_progress() && responder_.TransmitOne(port_);
    if (requester_.has_unsent()) more |= requester_.TransmitOne(port_);
  }
  return sent;
}

}  // namespace verbena::soft
