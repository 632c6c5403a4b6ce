#include <algorithm>
#include <cerrno>

#include "transport/soft/completion_queue.h"
#include "transport/soft/queue_pair.h"

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
  if (waiting < static_cast<uint32_t>(count) ||
      backlog_polls_.fetch_add(1, std::memory_order_relaxed) %
              kBacklogPollsMax ==
          0) {
    RunQueuePairs();
  }
  if (size_.load(std::memory_order_acquire) == 0) return failed() ? -EIO : 0;
  return Pop(count, completions);
}

void CompletionQueue::RunQueuePairs() {
  // When another thread is at it, it does so for both.
  if (!polling_lock_.try_lock()) return;
  for (QueuePair* qp : members_) qp->Poll();
  polling_lock_.unlock();
}

int CompletionQueue::Pop(int count, ibv_wc* completions) {
  BiasedLock::Guard lock(queue_lock_);
  const uint32_t capacity = static_cast<uint32_t>(ring_.size());
  const uint32_t size = size_.load(std::memory_order_relaxed);
  const uint32_t taken = std::min(size, static_cast<uint32_t>(count));
  for (uint32_t i = 0; i < taken; ++i) {
    const Entry& entry = ring_[head_];
    completions[i] = entry.completion;
    if ((entry.completion.opcode & IBV_WC_RECV) == 0) {
      entry.qp->OnSendPolled(entry.sent_up_to);
    }
    if (++head_ == capacity) head_ = 0;
  }
  size_.store(size - taken, std::memory_order_release);
  return static_cast<int>(taken);
}

void CompletionQueue::Push(const ibv_wc& completion, QueuePair* qp,
                           uint32_t sent_up_to, bool solicited) {
  bool raise = false;
  {
    BiasedLock::Guard lock(queue_lock_);
    const uint32_t capacity = static_cast<uint32_t>(ring_.size());
    const uint32_t size = size_.load(std::memory_order_relaxed);
    if (size == capacity || failed()) {
      Fail();
      return;
    }
    uint32_t tail = head_ + size;
    if (tail >= capacity) tail -= capacity;
    ring_[tail] = Entry{completion, qp, sent_up_to};
    size_.store(size + 1, std::memory_order_release);
    const Armed armed = armed_.load(std::memory_order_relaxed);
    raise = armed == Armed::kAny ||
            (armed == Armed::kSolicited &&
             (solicited || completion.status != IBV_WC_SUCCESS));
    if (raise) armed_.store(Armed::kNo, std::memory_order_relaxed);
  }
  if (raise) RaiseEvent();
}

}  // namespace verbena::soft
