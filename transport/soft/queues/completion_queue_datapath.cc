#include <algorithm>
#include <cerrno>

#include "transport/soft/connected/queue_pair.h"
#include "transport/soft/datagram/datagram_queue_pair.h"
#include "transport/soft/queues/completion_queue.h"

namespace verbena::soft {
namespace {

// A caller who always finds completions still runs the protocol this often.
constexpr uint32_t kBacklogPollsMax = 16;

}  // namespace

int CompletionQueue::Poll(int count, ibv_wc* completions) {
  if (count <= 0) {
    RunQueuePairs();
    return 0;
  }
  const uint32_t waiting = size_.load(std::memory_order_acquire);
  if (waiting < static_cast<uint32_t>(count) || LongBacklog()) {
    RunQueuePairs();
  }
  if (size_.load(std::memory_order_acquire) == 0) return failed() ? -EIO : 0;
  return Pop(count, completions);
}

void CompletionQueue::RunQueuePairs() {
  // When another thread is at it, it does so for both.
  if (!polling_lock_.try_lock()) return;
  if (returning_.load(std::memory_order_relaxed) != nullptr) TakeBack();
  for (QueuePair* qp : polled_) qp->Poll();
  for (DatagramQueuePair* qp : datagram_members_) qp->Poll();
  polling_lock_.unlock();
}

bool CompletionQueue::LongBacklog() {
  const uint32_t polls = backlog_polls_.load(std::memory_order_relaxed);
  backlog_polls_.store(polls + 1, std::memory_order_relaxed);
  return polls % kBacklogPollsMax == 0;
}

int CompletionQueue::Pop(int count, ibv_wc* completions) {
  BiasedLock::Guard lock(queue_lock_);
  return PopLocked(count, completions);
}

int CompletionQueue::PollOne(ibv_wc& completion, CompletionTime& time) {
  if (size_.load(std::memory_order_acquire) == 0 || LongBacklog()) {
    RunQueuePairs();
  }
  if (size_.load(std::memory_order_acquire) == 0) return failed() ? -EIO : 0;
  BiasedLock::Guard lock(queue_lock_);
  if (times_ != nullptr) time = times_[head_];
  return PopLocked(1, &completion);
}

inline int CompletionQueue::PopLocked(int count, ibv_wc* completions) {
  const uint32_t size = size_.load(std::memory_order_relaxed);
  const uint32_t taken = std::min(size, static_cast<uint32_t>(count));
  for (uint32_t i = 0; i < taken; ++i) {
    const Completion& from = ring_[head_];
    if (++head_ == capacity_) head_ = 0;
    // The other fields mean nothing but for a datagram.
    ibv_wc& to = completions[i];
    to.wr_id = from.wr_id;
    to.status = static_cast<ibv_wc_status>(from.status);
    to.opcode = static_cast<ibv_wc_opcode>(from.opcode);
    to.vendor_err = 0;
    to.byte_len = from.byte_len;
    to.imm_data = from.immediate;
    to.qp_num = from.qp->qp_num;
    to.wc_flags = from.flags;
    if ((from.opcode & IBV_WC_RECV) == 0) {
      OnSendPolled(from);
    } else if ((from.flags & IBV_WC_GRH) != 0) {
      FillDatagramFields(from, to);
    }
  }
  size_.store(size - taken, std::memory_order_release);
  return static_cast<int>(taken);
}

void CompletionQueue::OnSendPolled(const Completion& completion) {
  if (DatagramQueuePair::Is(completion.qp)) {
    DatagramQueuePair::From(completion.qp)->OnSendPolled(completion.sent_up_to);
  } else {
    QueuePair::From(completion.qp)->OnSendPolled(completion.sent_up_to);
  }
}

void CompletionQueue::FillDatagramFields(const Completion& from, ibv_wc& to) {
  to.src_qp = from.sender & 0xffffff;
  to.sl = static_cast<uint8_t>(from.sender >> 24);
  to.pkey_index = 0;
  to.slid = 0;
  to.dlid_path_bits = 0;
}

void CompletionQueue::Push(const Completion& completion) {
  bool raise = false;
  {
    BiasedLock::Guard lock(queue_lock_);
    if (size_.load(std::memory_order_relaxed) == capacity_ || failed())
        [[unlikely]] {
      if (!LoseOldest()) return Fail();
    }
    const uint32_t size = size_.load(std::memory_order_relaxed);
    uint32_t tail = head_ + size;
    if (tail >= capacity_) tail -= capacity_;
    ring_[tail] = completion;
    size_.store(size + 1, std::memory_order_release);
    if (armed_.load(std::memory_order_relaxed) != Armed::kNo) [[unlikely]] {
      raise = NoteArrival(tail);
    }
  }
  if (raise) RaiseEvent();
}

}  // namespace verbena::soft
