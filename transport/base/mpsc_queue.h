// The way into a poller from other threads: many producers, one consumer.

#ifndef VERBENA_TRANSPORT_BASE_MPSC_QUEUE_H_
#define VERBENA_TRANSPORT_BASE_MPSC_QUEUE_H_

#include <atomic>

namespace verbena::base {

// A link to embed in what is queued. An object stands in one queue at a time.
struct MpscNode {
  MpscNode* mpsc_next = nullptr;
};

// An intrusive, lock-free queue of T, which derives from MpscNode. The queue
// owns nothing; an element must stay alive until the consumer has taken it.
//
// Push() from any thread; TakeAll() from one thread at a time.
template <typename T>
class MpscQueue {
 public:
  MpscQueue() = default;
  MpscQueue(const MpscQueue&) = delete;
  MpscQueue& operator=(const MpscQueue&) = delete;

  // Returns whether the queue was empty, in which case the consumer may have to
  // be woken.
  bool Push(T* element) {
    MpscNode* head = head_.load(std::memory_order_relaxed);
    do {
      element->mpsc_next = head;
    } while (!head_.compare_exchange_weak(
        head, element, std::memory_order_seq_cst, std::memory_order_relaxed));
    return head == nullptr;
  }

  bool empty() const {
    return head_.load(std::memory_order_seq_cst) == nullptr;
  }

  // Takes everything out and calls `consume(T*)` on each in the order in which
  // they were pushed. `consume` may destroy the element or push it again.
  template <typename Consume>
  void TakeAll(Consume consume) {
    MpscNode* newest = head_.exchange(nullptr, std::memory_order_acq_rel);
    MpscNode* oldest = nullptr;
    while (newest != nullptr) {
      MpscNode* next = newest->mpsc_next;
      newest->mpsc_next = oldest;
      oldest = newest;
      newest = next;
    }
    while (oldest != nullptr) {
      MpscNode* next = oldest->mpsc_next;
      consume(static_cast<T*>(oldest));
      oldest = next;
    }
  }

 private:
  std::atomic<MpscNode*> head_{nullptr};  // The newest element.
};

}  // namespace verbena::base

#endif  // VERBENA_TRANSPORT_BASE_MPSC_QUEUE_H_
