#include "transport/soft/queues/completion_queue.h"

#include <algorithm>
#include <utility>

#include "transport/base/check.h"
#include "transport/soft/connected/queue_pair.h"
#include "transport/soft/datagram/datagram_queue_pair.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/link/link_port.h"
#include "transport/soft/verbs/device_attributes.h"
#include "transport/soft/verbs/extended_completion_queue.h"

namespace verbena::soft {

CompletionChannel::CompletionChannel(Context& owner,
                                     std::unique_ptr<EventQueue> events)
    : ibv_comp_channel(), events_(std::move(events)) {
  context = owner.handle();
  fd = events_->fd();
}

std::unique_ptr<CompletionChannel> CompletionChannel::Create(Context& context) {
  std::unique_ptr<EventQueue> events = EventQueue::Create();
  if (events == nullptr) return nullptr;
  return std::unique_ptr<CompletionChannel>(
      new CompletionChannel(context, std::move(events)));
}

CompletionQueue::CompletionQueue(Context& owner, int capacity,
                                 void* user_context,
                                 CompletionChannel* event_channel)
    : context_(owner),
      channel_(event_channel),
      capacity_(capacity),
      ring_(std::make_unique_for_overwrite<Completion[]>(capacity)) {
  context = owner.handle();
  channel = event_channel;
  cq_context = user_context;
  cqe = capacity;
}

CompletionQueue::~CompletionQueue() {
  CHECK(members_.empty() && datagram_members_.empty())
      << "a queue pair still uses the completion queue";
  if (channel_ != nullptr) channel_->events().Forget(channel_source_);
  context_.async_events().Forget(async_source_);
}

int CompletionQueue::Arm(bool solicited_only) {
  if (channel_ == nullptr) return 0;  // Nobody to tell, as on any device.
  {
    BiasedLock::Guard lock(queue_lock_);
    if (!solicited_only) {
      armed_.store(Armed::kAny, std::memory_order_relaxed);
    } else if (!armed()) {
      armed_.store(Armed::kSolicited, std::memory_order_relaxed);
    }
  }
  BiasedLock::Guard lock(polling_lock_);
  TakeBack();
  bool fence = false;
  // Those that are parked sleep already.
  for (QueuePair* qp : polled_) fence |= qp->PrepareToSleep();
  if (fence) LinkPort::FenceAfterSleep();
  for (QueuePair* qp : polled_) qp->LookAgain();
  for (DatagramQueuePair* qp : datagram_members_) qp->OnArmed();
  return 0;
}

void CompletionQueue::Attach(QueuePair* qp) {
  BiasedLock::Guard lock(polling_lock_);
  if (std::find(members_.begin(), members_.end(), qp) == members_.end()) {
    members_.push_back(qp);
    polled_.push_back(qp);
    members_count_.store(static_cast<uint32_t>(members_.size()),
                         std::memory_order_relaxed);
  }
}

void CompletionQueue::Detach(QueuePair* qp) {
  {
    BiasedLock::Guard lock(polling_lock_);
    TakeBack();  // It may be among those on their way.
    std::erase(members_, qp);
    std::erase(polled_, qp);
    members_count_.store(static_cast<uint32_t>(members_.size()),
                         std::memory_order_relaxed);
  }
  Purge(qp);
}

void CompletionQueue::Attach(DatagramQueuePair* qp) {
  BiasedLock::Guard lock(polling_lock_);
  std::vector<DatagramQueuePair*>& members = datagram_members_;
  if (std::find(members.begin(), members.end(), qp) == members.end()) {
    members.push_back(qp);
  }
}

void CompletionQueue::Detach(DatagramQueuePair* qp) {
  {
    BiasedLock::Guard lock(polling_lock_);
    std::erase(datagram_members_, qp);
  }
  Purge(qp);
}

void CompletionQueue::Park(QueuePair* qp) {
  qp->parking().parked.store(true, std::memory_order_relaxed);
  std::erase(polled_, qp);
}

void CompletionQueue::Return(QueuePair* qp) {
  QueuePair::Parking& parking = qp->parking();
  if (parking.returning.exchange(true, std::memory_order_acq_rel)) return;
  QueuePair* first = returning_.load(std::memory_order_relaxed);
  do {
    parking.next = first;
  } while (!returning_.compare_exchange_weak(
      first, qp, std::memory_order_release, std::memory_order_relaxed));
}

void CompletionQueue::TakeBack() {
  QueuePair* qp = returning_.exchange(nullptr, std::memory_order_acquire);
  while (qp != nullptr) {
    QueuePair::Parking& parking = qp->parking();
    QueuePair* const next = parking.next;
    // From now on it may return once more, which does no harm.
    parking.returning.store(false, std::memory_order_release);
    if (parking.parked.load(std::memory_order_relaxed)) {
      parking.parked.store(false, std::memory_order_relaxed);
      polled_.push_back(qp);
    }
    qp = next;
  }
}

void CompletionQueue::Purge(ibv_qp* qp) {
  BiasedLock::Guard lock(queue_lock_);
  const uint32_t size = size_.load(std::memory_order_relaxed);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < size; ++i) {
    const Completion& entry = ring_[(head_ + i) % capacity_];
    if (entry.qp == qp) continue;
    ring_[(head_ + kept) % capacity_] = entry;
    if (times_ != nullptr) {
      times_[(head_ + kept) % capacity_] = times_[(head_ + i) % capacity_];
    }
    ++kept;
  }
  size_.store(kept, std::memory_order_relaxed);
}

bool CompletionQueue::Resize(uint32_t capacity) {
  auto ring = std::make_unique_for_overwrite<Completion[]>(capacity);
  std::unique_ptr<CompletionTime[]> times;
  BiasedLock::Guard lock(queue_lock_);
  const uint32_t size = size_.load(std::memory_order_relaxed);
  if (size > capacity) return false;
  if (times_ != nullptr) {
    times = std::make_unique_for_overwrite<CompletionTime[]>(capacity);
  }
  for (uint32_t i = 0; i < size; ++i) {
    ring[i] = ring_[(head_ + i) % capacity_];
    if (times != nullptr) times[i] = times_[(head_ + i) % capacity_];
  }
  ring_ = std::move(ring);
  times_ = std::move(times);
  head_ = 0;
  capacity_ = capacity;
  cqe = static_cast<int>(capacity);
  return true;
}

bool CompletionQueue::has_queue_pairs() {
  BiasedLock::Guard lock(polling_lock_);
  return !members_.empty() || !datagram_members_.empty();
}

void CompletionQueue::AcknowledgeCompletionEvents(unsigned int count) {
  // None is what a program acknowledges that has no channel.
  if (count == 0) return;
  channel_->events().Acknowledge(channel_source_, count);
}

void CompletionQueue::NoteTimes() {
  times_ = std::make_unique_for_overwrite<CompletionTime[]>(capacity_);
  armed_.store(Armed::kNoButTimed, std::memory_order_relaxed);
}

void CompletionQueue::NoteTime(uint32_t index) {
  times_[index] = {ClockNow(), WallclockNow()};
}

bool CompletionQueue::LoseOldest() {
  if (!ignores_overruns_ || failed()) return false;
  if (++head_ == capacity_) head_ = 0;
  size_.store(capacity_ - 1, std::memory_order_relaxed);
  return true;
}

bool CompletionQueue::NoteArrival(uint32_t index) {
  if (times_ != nullptr) NoteTime(index);
  const Armed armed = armed_.load(std::memory_order_relaxed);
  if (armed == Armed::kNoButTimed) return false;
  const Completion& completion = ring_[index];
  if (armed == Armed::kSolicited && !completion.solicited &&
      completion.status == IBV_WC_SUCCESS) {
    return false;
  }
  armed_.store(times_ == nullptr ? Armed::kNo : Armed::kNoButTimed,
               std::memory_order_relaxed);
  return true;
}

// Raises the event once. The queue pairs see failed() when they next run.
void CompletionQueue::Fail() {
  if (failed_.exchange(true, std::memory_order_relaxed)) return;
  context_.async_events().Raise(
      {&async_source_, static_cast<ibv_cq*>(this), IBV_EVENT_CQ_ERR});
  context_.soft_device().engine().KickAll();
}

void CompletionQueue::Exhaust() {
  BiasedLock::Guard lock(queue_lock_);
  Fail();
}

void CompletionQueue::RaiseEvent() {
  channel_->events().Raise({&channel_source_, static_cast<ibv_cq*>(this), 0});
}

}  // namespace verbena::soft
