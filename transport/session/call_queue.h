// Calls that wait for room, first come first served.

#ifndef VERBENA_TRANSPORT_SESSION_CALL_QUEUE_H_
#define VERBENA_TRANSPORT_SESSION_CALL_QUEUE_H_

#include <cstdint>

namespace verbena::transport {

// An intrusive list: a call that waits costs no memory. Owns nothing; a call
// stands in one queue at a time. `Call` has two pointers for it, next_ and
// previous_, and befriends it.
template <typename Call>
class CallQueue {
 public:
  bool empty() const { return front_ == nullptr; }
  uint32_t size() const { return size_; }
  Call* front() const { return front_; }
  // The call behind `call`, or null.
  static Call* Next(const Call* call) { return call->next_; }

  void PushBack(Call* call) {
    call->next_ = nullptr;
    call->previous_ = back_;
    (back_ == nullptr ? front_ : back_->next_) = call;
    back_ = call;
    ++size_;
  }

  void PushFront(Call* call) {
    call->previous_ = nullptr;
    call->next_ = front_;
    (front_ == nullptr ? back_ : front_->previous_) = call;
    front_ = call;
    ++size_;
  }

  // Looks at every call in the queue.
  bool Contains(const Call* call) const {
    const Call* other = front_;
    while (other != nullptr && other != call) other = Next(other);
    return other != nullptr;
  }

  void Clear() {
    while (!empty()) Remove(front());
  }

  // REQUIRES: the call stands in this queue.
  void Remove(Call* call) {
    (call->previous_ == nullptr ? front_ : call->previous_->next_) =
        call->next_;
    (call->next_ == nullptr ? back_ : call->next_->previous_) = call->previous_;
    call->next_ = call->previous_ = nullptr;
    --size_;
  }

 private:
  Call* front_ = nullptr;
  Call* back_ = nullptr;
  uint32_t size_ = 0;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SESSION_CALL_QUEUE_H_
