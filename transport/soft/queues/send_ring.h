// The slots of a send queue, of queue pairs of all types.

#ifndef VERBENA_TRANSPORT_SOFT_QUEUES_SEND_RING_H_
#define VERBENA_TRANSPORT_SOFT_QUEUES_SEND_RING_H_

#include <infiniband/verbs.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace verbena::soft {

// Requests are numbered by a free-running counter. Each has a slot, with its
// entries and its inline data, until a completion that covers it has been
// polled, as on hardware: a queue of unsignalled requests alone stays full.
//
// Not thread-safe, except Free(). Allocates only when created.
template <typename Slot>
class SendRing {
 public:
  // With the depth and the widths that the attributes grant.
  explicit SendRing(const ibv_qp_init_attr& attributes)
      : requests_max_(attributes.cap.max_send_wr),
        entries_max_(attributes.cap.max_send_sge),
        inline_max_(attributes.cap.max_inline_data),
        mask_(std::bit_ceil(std::max(requests_max_, 1u)) - 1),
        slots_(std::make_unique_for_overwrite<Slot[]>(slots_count())),
        entries_(std::make_unique_for_overwrite<ibv_sge[]>(slots_count() *
                                                           entries_max_)),
        inline_data_(std::make_unique_for_overwrite<std::byte[]>(
            slots_count() * inline_max_)) {}

  uint32_t entries_max() const { return entries_max_; }
  uint32_t inline_max() const { return inline_max_; }
  size_t slots_count() const { return size_t{mask_} + 1; }
  // Which of the slots is that of request `number`.
  uint32_t index(uint32_t number) const { return number & mask_; }

  Slot& slot(uint32_t number) { return slots_[index(number)]; }
  ibv_sge* entries(uint32_t number) {
    return entries_.get() + size_t{index(number)} * entries_max_;
  }
  std::byte* inline_data(uint32_t number) {
    return inline_data_.get() + size_t{index(number)} * inline_max_;
  }

  // Returns how many more requests may be posted, when `posted` have been so
  // far. Acquires what Free() releases: the thread that polled the completion
  // is done with the slots before they are used again.
  uint32_t Room(uint32_t posted) const {
    return requests_max_ - (posted - freed_.load(std::memory_order_acquire));
  }
  // A completion that covers the requests before `count` has been polled. From
  // any thread.
  void Free(uint32_t count) { freed_.store(count, std::memory_order_release); }
  // The next request is number 0 again.
  void Reset() { freed_.store(0, std::memory_order_relaxed); }

 private:
  const uint32_t requests_max_;
  const uint32_t entries_max_;
  const uint32_t inline_max_;
  // The number of slots less one. It is a power of two, at least requests_max_,
  // so that the slot of a request is its number under this mask.
  const uint32_t mask_;
  // Not cleared when made: what was never used costs no memory.
  const std::unique_ptr<Slot[]> slots_;
  const std::unique_ptr<ibv_sge[]> entries_;
  const std::unique_ptr<std::byte[]> inline_data_;
  std::atomic<uint32_t> freed_{0};
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_QUEUES_SEND_RING_H_
