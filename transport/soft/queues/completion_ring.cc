#include "transport/soft/queues/completion_ring.h"

#include <utility>

namespace verbena::soft {

// Moves the completions that stay towards the head, in their order. The size
// may be stored relaxed: a poll takes the lock before it touches a completion.
void CompletionRing::Purge(const QueuePair* qp) {
  const uint32_t size = size_.load(std::memory_order_relaxed);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < size; ++i) {
    const uint32_t from = (head_ + i) % capacity_;
    if (ring_[from].qp == qp) continue;
    const uint32_t to = (head_ + kept++) % capacity_;
    ring_[to] = ring_[from];
    if (times_ != nullptr) times_[to] = times_[from];
  }
  size_.store(kept, std::memory_order_relaxed);
}

// Copies the completions, oldest first, to a new ring that begins at index 0.
// All memory is there before anything changes.
bool CompletionRing::Resize(uint32_t capacity) {
  const uint32_t size = size_.load(std::memory_order_relaxed);
  if (size > capacity) return false;
  auto ring = std::make_unique_for_overwrite<Completion[]>(capacity);
  std::unique_ptr<CompletionTime[]> times;
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
  return true;
}

}  // namespace verbena::soft
