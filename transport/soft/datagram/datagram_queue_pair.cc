#include "transport/soft/datagram/datagram_queue_pair.h"

#include <cerrno>
#include <chrono>
#include <utility>

#include "transport/soft/base/datagram_socket.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/remote/datagram_network.h"

namespace verbena::soft {
namespace {

// How often the engine looks whether a queue pair is still being polled, or
// whether a receiver has made room.
constexpr std::chrono::milliseconds kLookInterval(1);

// A user who wakes up, takes a few completions and arms again polls less often
// than this: then the engine goes on watching the socket.
constexpr uint32_t kPollsToWakeUp = 64;

}  // namespace

std::unique_ptr<DatagramQueuePair> DatagramQueuePair::Create(
    SoftDevice& device, ProtectionDomain& pd, ibv_qp_init_attr& attributes) {
  if (const int error = CheckInitAttributes(pd, attributes); error != 0) {
    errno = error;
    return nullptr;
  }
  std::unique_ptr<DatagramQueuePair> qp(
      new DatagramQueuePair(device, pd, attributes));
  if (qp->qp_num == 0) {
    errno = ENOMEM;
    return nullptr;
  }
  return qp;
}

DatagramQueuePair::DatagramQueuePair(SoftDevice& device,
                                     ProtectionDomain& domain,
                                     const ibv_qp_init_attr& attributes)
    : QueuePairHandle(domain, attributes),
      device_(device),
      init_attributes_(attributes),
      send_cq_(*CompletionQueue::From(attributes.send_cq)),
      recv_cq_(*CompletionQueue::From(attributes.recv_cq)),
      receive_queue_(attributes.cap.max_recv_wr, attributes.cap.max_recv_sge),
      sends_({this, &send_cq_, &device.memory(), &domain.original()},
             attributes) {
  qp_num = device_.queue_pairs().Add(this);
  send_cq_.Attach(this);
  recv_cq_.Attach(this);
}

DatagramQueuePair::~DatagramQueuePair() {
  if (qp_num != 0) device_.queue_pairs().Remove(qp_num);
  {
    std::lock_guard<std::mutex> lock(lock_);
    SetState(IBV_QPS_RESET);
  }
  CloseSocket();
  if (is_engine_member_) device_.engine().RemoveMember(this);
  send_cq_.Detach(this);
  recv_cq_.Detach(this);
  Context::From(context)->async_events().Forget(async_source_);
}

int DatagramQueuePair::OpenSocket() {
  if (const int error = OpenDatagramSocket(qp_num, socket_); error != 0) {
    return error;
  }
  retired_ = false;
  if (!is_engine_member_) device_.engine().AddMember(this);
  is_engine_member_ = true;
  device_.datagrams().AddReceiver();
  Watch();  // Until somebody polls.
  return 0;
}

void DatagramQueuePair::CloseSocket() {
  base::UniqueFd socket;
  {
    std::lock_guard<std::mutex> lock(lock_);
    socket = std::move(socket_);
    watched_ = retired_ = false;
  }
  if (!socket.valid()) return;
  device_.engine().Unwatch(socket.get());
  device_.datagrams().RemoveReceiver();
}

void DatagramQueuePair::Watch() {
  if (watched_ || !socket_.valid() || retired_) return;
  watched_ = true;
  polls_watched_ = 0;
  device_.engine().Watch(socket_.get(), [this] {
    std::lock_guard<std::mutex> lock(lock_);
    Receive();
    SettleFailures();
  });
}

void DatagramQueuePair::OnArmed() {
  std::lock_guard<std::mutex> lock(lock_);
  polls_watched_ = 0;
  Watch();
}

void DatagramQueuePair::Poll() {
  // Several threads may poll; a lost count does no harm.
  polls_.store(polls_.load(std::memory_order_relaxed) + 1,
               std::memory_order_relaxed);
  const std::unique_lock<std::mutex> lock(lock_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  Receive();
  Transmit();
  SettleFailures();
  if (watched_ && !AnyQueueArmed() && ++polls_watched_ == kPollsToWakeUp) {
    device_.engine().Kick(this);
  }
}

// On the engine's thread, so what it stops watching is not being called.
EngineMember::TimePoint DatagramQueuePair::OnTick(TimePoint now) {
  const uint32_t polls = polls_.load(std::memory_order_relaxed);
  const bool polled = polls != polls_seen_;
  polls_seen_ = polls;
  std::lock_guard<std::mutex> lock(lock_);
  SettleFailures();
  const bool awake = polls_watched_ >= kPollsToWakeUp && !AnyQueueArmed();
  if (watched_ && (retired_ || (polled && awake))) {
    device_.engine().Unwatch(socket_.get());
    watched_ = false;
  }
  if (retired_) {
    socket_.Reset();
    device_.datagrams().RemoveReceiver();
    retired_ = false;
  }
  if (!socket_.valid()) return TimePoint::max();
  if (!polled) {
    Watch();
    Transmit();
  }
  return watched_ && sends_.empty() ? TimePoint::max() : now + kLookInterval;
}

void DatagramQueuePair::SettleFailures() {
  if (send_cq_.failed() || recv_cq_.failed()) EnterError(IBV_EVENT_QP_FATAL);
}

void DatagramQueuePair::RaiseEvent(int type) {
  Context::From(context)->async_events().Raise(
      {&async_source_, static_cast<ibv_qp*>(this), type});
}

bool DatagramQueuePair::MayReceive() const {
  return state_ == IBV_QPS_RTR || state_ == IBV_QPS_RTS ||
         state_ == IBV_QPS_SQD || state_ == IBV_QPS_SQE;
}

void DatagramQueuePair::SetState(ibv_qp_state to) {
  state_ = to;
  ibv_qp::state = to;
}

void DatagramQueuePair::EnterError(int event) {
  if (state_ == IBV_QPS_ERR || state_ == IBV_QPS_RESET) return;
  SetState(IBV_QPS_ERR);
  sends_.Flush();
  FlushReceives();
  if (socket_.valid()) {
    retired_ = true;
    device_.engine().Kick(this);
  }
  if (event >= 0) RaiseEvent(event);
  if (srq != nullptr) RaiseEvent(IBV_EVENT_QP_LAST_WQE_REACHED);
}

void DatagramQueuePair::Reset() {
  SetState(IBV_QPS_RESET);
  receive_queue_.Clear();
  sends_.Reset();
  send_cq_.Purge(this);
  recv_cq_.Purge(this);
  attributes_ = {};
  waiting_since_ = TimePoint::max();
  slow_receiver_ = 0;
}

}  // namespace verbena::soft
