#include "transport/connection/send_queue.h"

#include <algorithm>

#include "transport/base/check.h"

namespace verbena::transport {

SendQueue::~SendQueue() {
  if (spare_slot_ != SendSlots::kNone) slots_.Release(spare_slot_);
  // A device that never flushed what it had: the queue pair is gone, so it
  // touches nothing any more.
  if (!idle()) Complete(posted_ - 1, [](void*) {});
  if (batch_ != nullptr) {
    batch_->Clear();
    batches_.Release(batch_);
  }
}

void SendQueue::Attach(ibv_qp* qp, uint32_t inline_bytes) {
  qp_ = qp;
  inline_bytes_ = std::min(inline_bytes, kInlineBytesWanted);
}

absl::Status SendQueue::PostDrainMarker() {
  ibv_send_wr* const wr = Add(Kind::kMarker, IBV_WR_SEND, nullptr, 0, 0);
  wr->num_sge = 0;
  wr->send_flags = IBV_SEND_SIGNALED;
  return Flush();
}

void SendQueue::TakeShared() {
  CHECK(shared_.available());
  shared_.Take();
  ++shared_held_;
}

}  // namespace verbena::transport
