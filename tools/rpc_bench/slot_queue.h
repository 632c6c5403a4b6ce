// A queue of slots that never allocates.

#ifndef VERBENA_TOOLS_RPC_BENCH_SLOT_QUEUE_H_
#define VERBENA_TOOLS_RPC_BENCH_SLOT_QUEUE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace verbena::bench {

// First in, first out. Holds at most as many as it was made for; not checked.
class SlotQueue {
 public:
  explicit SlotQueue(size_t capacity)
      : slots_(std::bit_ceil(capacity)), mask_(slots_.size() - 1) {}

  bool empty() const { return head_ == tail_; }
  size_t size() const { return tail_ - head_; }

  // REQUIRES: !empty().
  int front() const { return slots_[head_ & mask_]; }

  void Push(int slot) { slots_[tail_++ & mask_] = slot; }

  // REQUIRES: !empty().
  int Pop() { return slots_[head_++ & mask_]; }

 private:
  std::vector<int> slots_;
  const size_t mask_;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
};

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_SLOT_QUEUE_H_
