// A queue of a fixed size.

#ifndef VERBENA_TRANSPORT_SOFT_IWARP_FIXED_QUEUE_H_
#define VERBENA_TRANSPORT_SOFT_IWARP_FIXED_QUEUE_H_

#include <array>
#include <cstdint>

namespace verbena::soft {

// First in, first out; the newest can be taken back. REQUIRES, of the methods
// that touch an element: there is one, or room for one.
template <typename T, uint32_t kSize>
class FixedQueue {
 public:
  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == kSize; }
  T& front() { return items_[head_]; }
  T& back() { return items_[(head_ + count_ - 1) % kSize]; }
  void Push(const T& item) { items_[(head_ + count_++) % kSize] = item; }
  void Pop() {
    head_ = (head_ + 1) % kSize;
    --count_;
  }
  void PopBack() { --count_; }

 private:
  std::array<T, kSize> items_ = {};
  uint32_t head_ = 0;
  uint32_t count_ = 0;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_IWARP_FIXED_QUEUE_H_
