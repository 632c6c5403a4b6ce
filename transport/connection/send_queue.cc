#include "transport/connection/send_queue.h"

#include <utility>

#include "transport/base/status_macros.h"

namespace verbena::transport {

absl::StatusOr<SendQueue> SendQueue::Create(const ProtectionDomain& pd) {
  ASSIGN_OR_RETURN(RegisteredMemory memory,
                   RegisteredMemory::Create(pd, kFrameDepth * kSlotBytes,
                                            IBV_ACCESS_LOCAL_WRITE));
  return SendQueue(std::move(memory));
}

void SendQueue::Attach(ibv_qp* qp, uint32_t inline_bytes) {
  qp_ = qp;
  inline_bytes_ = inline_bytes;
}

void SendQueue::PostDrainMarker() {
  ibv_send_wr wr = {};
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  // A device that refuses this has nothing to flush either; the caller gives up
  // waiting after a bounded time.
  Post(&wr, Kind::kMarker, nullptr).IgnoreError();
}

}  // namespace verbena::transport
