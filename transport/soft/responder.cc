#include "transport/soft/responder.h"

#include "transport/soft/queue_pair.h"

namespace verbena::soft {

void Responder::Meet() {
  met_ = true;
  dropping_ = false;
  environment_.qp->OnFirstPacket();
}

void Responder::Flush() {
  if (receive_taken_) {
    PushReceive(IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV, nullptr);
  }
  in_message_ = false;
  dropping_ = true;
  nak_due_ = false;
  reads_count_ = 0;
  if (environment_.shared_receives != nullptr) return;
  while (TakeReceive()) {
    PushReceive(IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV, nullptr);
  }
}

void Responder::Reset() {
  executed_ = 0;
  met_ = nak_due_ = failed_ = in_message_ = receive_taken_ = false;
  dropping_ = true;
  event_ = -1;
  reads_head_ = reads_count_ = 0;
}

}  // namespace verbena::soft
