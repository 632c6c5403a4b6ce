// The completions that wait in a queue.

#ifndef VERBENA_TRANSPORT_SOFT_QUEUES_COMPLETION_RING_H_
#define VERBENA_TRANSPORT_SOFT_QUEUES_COMPLETION_RING_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "transport/soft/queues/completion.h"

namespace verbena::soft {

// A bounded first-in first-out queue of completions, with the time of each if
// that is wanted. Not thread-safe, except size(): a poll reads it without the
// lock, and takes the lock before it touches a completion.
class CompletionRing {
 public:
  // Its memory is not cleared: pages that were never used cost nothing.
  explicit CompletionRing(uint32_t capacity)
      : capacity_(capacity),
        ring_(std::make_unique_for_overwrite<Completion[]>(capacity)) {}

  uint32_t size() const { return size_.load(std::memory_order_acquire); }
  bool full() const {
    return size_.load(std::memory_order_relaxed) == capacity_;
  }

  // REQUIRES: !full(). Returns the index of the completion, for SetTime().
  uint32_t Push(const Completion& completion) {
    const uint32_t size = size_.load(std::memory_order_relaxed);
    uint32_t tail = head_ + size;
    if (tail >= capacity_) tail -= capacity_;
    ring_[tail] = completion;
    size_.store(size + 1, std::memory_order_release);
    return tail;
  }

  // Calls `take` with each of the oldest `count` completions, or all there are,
  // and drops them. Returns how many these were.
  template <typename Take>
  uint32_t Pop(uint32_t count, Take take) {
    const uint32_t size = size_.load(std::memory_order_relaxed);
    const uint32_t taken = size < count ? size : count;
    for (uint32_t i = 0; i < taken; ++i) {
      take(i, ring_[head_]);
      if (++head_ == capacity_) head_ = 0;
    }
    size_.store(size - taken, std::memory_order_release);
    return taken;
  }

  // Drops the completions of `qp`.
  void Purge(const QueuePair* qp);
  // False when more than `capacity` completions are waiting. Allocates.
  bool Resize(uint32_t capacity);

  // From now on there is a time for each completion. Allocates.
  void KeepTimes() {
    times_ = std::make_unique_for_overwrite<CompletionTime[]>(capacity_);
  }
  // These two REQUIRE that KeepTimes() was called.
  void SetTime(uint32_t index, const CompletionTime& time) {
    times_[index] = time;
  }
  const CompletionTime& oldest_time() const { return times_[head_]; }

 private:
  uint32_t capacity_;
  std::unique_ptr<Completion[]> ring_;
  std::unique_ptr<CompletionTime[]> times_;  // Null unless times are kept.
  uint32_t head_ = 0;                        // Index of the oldest.
  std::atomic<uint32_t> size_{0};
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_QUEUES_COMPLETION_RING_H_
