#include "transport/soft/datagram/datagram_queue_pair.h"

#include <chrono>
#include <utility>

#include "transport/soft/base/datagram_socket.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/datagram/datagram_device.h"
#include "transport/soft/device/soft_device.h"

namespace verbena::soft {
namespace {

// How often the engine looks whether a queue pair is still being polled, or
// whether a receiver has made room.
constexpr std::chrono::milliseconds kLookInterval(1);

// Polls without a completion queue armed after which the user counts as one
// that spins, and the engine need not watch the socket any more. A user who
// wakes up, takes a few completions and arms again polls less often than this.
constexpr uint32_t kPollsToWakeUp = 64;

}  // namespace

DatagramQueuePair::DatagramQueuePair(SoftDevice& device,
                                     ProtectionDomain& domain,
                                     const ibv_qp_init_attr& attributes)
    : QueuePair(device, domain, attributes),
      receives_(domain, attributes),
      sends_({this, &send_cq_, &device.memory(), &domain.original()},
             attributes) {
  // Last, because polls may run the queue pair from now on.
  Register(NumberKind::kOfHost);
}

// In RESET nothing is received any more, even if a callback of the socket is
// still to run.
DatagramQueuePair::~DatagramQueuePair() {
  Unregister();
  {
    const base::MutexLock lock(lock_);
    SetState(IBV_QPS_RESET);
  }
  CloseSocket();
  DetachFromQueues();
}

int DatagramQueuePair::OpenSocket() {
  if (const int error = OpenDatagramSocket(qp_num, socket_); error != 0) {
    return error;
  }
  retired_ = false;
  JoinEngine();
  DatagramDevice::Get().network.Start();
  Watch();  // The engine receives until somebody polls.
  return 0;
}

// Takes the socket out with the lock, and stops watching it without: that waits
// for a callback, which takes the lock.
void DatagramQueuePair::CloseSocket() {
  base::UniqueFd socket;
  {
    const base::MutexLock lock(lock_);
    socket = std::move(socket_);
    watched_ = retired_ = false;
  }
  if (!socket.valid()) return;
  device_.engine().Unwatch(socket.get());
}

void DatagramQueuePair::Watch() {
  if (watched_ || !socket_.valid() || retired_) return;
  watched_ = true;
  polls_watched_ = 0;
  device_.engine().WatchWhenPossible(socket_.get(), [this] {
    const base::MutexLock lock(lock_);
    Receive();
    EnterErrorIfQueueFailed();
  });
}

bool DatagramQueuePair::PrepareToSleep() {
  const base::MutexLock lock(lock_);
  polls_watched_ = 0;
  Watch();
  // No fence and no second look: a watched socket stays readable.
  return false;
}

void DatagramQueuePair::Run() {
  if (!lock_.try_lock()) return;
  Receive();
  Transmit();
  EnterErrorIfQueueFailed();
  // Only the engine's thread stops watching the socket: see OnTick().
  if (watched_ && !AnyQueueArmed() && ++polls_watched_ == kPollsToWakeUp) {
    device_.engine().Kick(this);
  }
  lock_.unlock();
}

// Runs on the engine's thread, so no callback of the socket is running when it
// stops watching that.
EngineMember::TimePoint DatagramQueuePair::OnTick(TimePoint now) {
  const bool polled = PolledSinceLastLook();
  const base::MutexLock lock(lock_);
  EnterErrorIfQueueFailed();
  const bool awake = polls_watched_ >= kPollsToWakeUp && !AnyQueueArmed();
  if (watched_ && (retired_ || (polled && awake))) {
    device_.engine().Unwatch(socket_.get());
    watched_ = false;
  }
  if (retired_) {
    socket_.Reset();
    retired_ = false;
  }
  if (!socket_.valid()) return TimePoint::max();
  if (!polled) {
    Watch();
    Transmit();
  }
  return watched_ && sends_.empty() ? TimePoint::max() : now + kLookInterval;
}

void DatagramQueuePair::EnterErrorIfQueueFailed() {
  if (AnyQueueFailed()) EnterError(IBV_EVENT_QP_FATAL);
}

// SQE stops the send queue alone.
bool DatagramQueuePair::MayReceive() const {
  return state_ == IBV_QPS_RTR || state_ == IBV_QPS_RTS ||
         state_ == IBV_QPS_SQD || state_ == IBV_QPS_SQE;
}

void DatagramQueuePair::SetState(ibv_qp_state to) {
  state_ = to;
  ibv_qp::state = to;
}

void DatagramQueuePair::EnterError(std::optional<ibv_event_type> event) {
  if (state_ == IBV_QPS_ERR || state_ == IBV_QPS_RESET) return;
  SetState(IBV_QPS_ERR);
  sends_.Flush();
  FlushReceives();
  // The engine closes the socket: to stop watching it from here, with the lock
  // held, could mean to wait for a callback that waits for the lock.
  if (socket_.valid()) {
    retired_ = true;
    device_.engine().Kick(this);
  }
  if (event.has_value()) RaiseEvent(*event);
  if (srq != nullptr) RaiseEvent(IBV_EVENT_QP_LAST_WQE_REACHED);
}

void DatagramQueuePair::Reset() {
  SetState(IBV_QPS_RESET);
  receives_.own().Clear();
  // The queues first, for the reason that ConnectedQueuePair::Reset() gives.
  send_cq_.Purge(this);
  recv_cq_.Purge(this);
  sends_.Reset();
  attributes_ = {};
  waiting_since_ = TimePoint::max();
  slow_receiver_ = 0;
}

}  // namespace verbena::soft
