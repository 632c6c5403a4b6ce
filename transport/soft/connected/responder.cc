#include "transport/soft/connected/responder.h"

#include "transport/soft/queues/queue_pair.h"

namespace verbena::soft {

// The first packet has come. If that is before the queue pair is ready to send,
// its user learns by COMM_EST that the peer is: he may have been told nothing
// else.
void Responder::Meet() {
  met_ = true;
  dropping_ = false;
  if (environment_.qp->state == IBV_QPS_RTR) {
    environment_.qp->RaiseEvent(IBV_EVENT_COMM_EST);
  }
}

void Responder::Flush() {
  if (receive_taken_) {
    PushReceive(IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV, nullptr);
  }
  in_message_ = false;
  dropping_ = true;
  nak_due_ = false;
  reads_count_ = 0;
  while (environment_.receives->own().Take(receive_)) {
    PushReceive(IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV, nullptr);
  }
}

// A window of type 1 serves all queue pairs of its protection domain, one of
// type 2 only the queue pair that it was bound to.
std::byte* Responder::FindInWindow(uint32_t key, uint64_t address,
                                   uint64_t length, unsigned int access) const {
  std::byte* const found = environment_.memory->Translate(
      key, MemoryWindows::Owner(environment_.pd), address, length, access);
  return found != nullptr ? found
                          : environment_.memory->Translate(
                                key, environment_.qp, address, length, access);
}

// Takes the last packet of a SEND that invalidates a key. Returns false when
// that is not allowed; then the request has been refused.
bool Responder::OnInvalidate(const Packet& packet) {
  if (environment_.windows->Invalidate(packet.value, environment_.qp)) {
    return true;
  }
  PushReceive(IBV_WC_REM_INV_REQ_ERR, IBV_WC_RECV, nullptr);
  Drop(packet, NakReason::kRemoteAccess, IBV_EVENT_QP_ACCESS_ERR);
  return false;
}

void Responder::Reset() {
  executed_ = 0;
  met_ = nak_due_ = failed_ = in_message_ = receive_taken_ = false;
  dropping_ = true;
  event_ = std::nullopt;
  reads_head_ = reads_count_ = 0;
}

}  // namespace verbena::soft
