// Calls that wait for room, first come first served.

#ifndef VERBENA_TRANSPORT_CONNECTION_CLIENT_CALL_QUEUE_H_
#define VERBENA_TRANSPORT_CONNECTION_CLIENT_CALL_QUEUE_H_

#include <cstdint>

#include "transport/connection/client_call.h"

namespace verbena::transport {

// An intrusive list: a call that waits costs no memory. Owns nothing; a call
// stands in one queue at a time.
class ClientCallQueue {
 public:
  bool empty() const { return front_ == nullptr; }
  uint32_t size() const { return size_; }
  ClientCall* front() const { return front_; }
  // The call behind `call`, or null.
  static ClientCall* Next(const ClientCall* call) { return call->next_; }

  void PushBack(ClientCall* call) {
    call->next_ = nullptr;
    call->previous_ = back_;
    (back_ == nullptr ? front_ : back_->next_) = call;
    back_ = call;
    ++size_;
  }

  void PushFront(ClientCall* call) {
    call->previous_ = nullptr;
    call->next_ = front_;
    (front_ == nullptr ? back_ : front_->previous_) = call;
    front_ = call;
    ++size_;
  }

  // REQUIRES: the call stands in this queue.
  void Remove(ClientCall* call) {
    (call->previous_ == nullptr ? front_ : call->previous_->next_) =
        call->next_;
    (call->next_ == nullptr ? back_ : call->next_->previous_) = call->previous_;
    call->next_ = call->previous_ = nullptr;
    --size_;
  }

 private:
  ClientCall* front_ = nullptr;
  ClientCall* back_ = nullptr;
  uint32_t size_ = 0;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CONNECTION_CLIENT_CALL_QUEUE_H_
