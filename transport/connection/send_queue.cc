#include "transport/connection/send_queue.h"

#include <algorithm>

namespace verbena::transport {

SendQueue::~SendQueue() {
  if (spare_buffer_ != SendBuffers::kNone) buffers_.Release(spare_buffer_);
  // A device that never flushed what it had: the queue pair is gone, so it
  // touches nothing any more.
  while (!idle()) Complete(done_, [](void*) {});
  if (batch_ != nullptr) {
    batch_->Clear();
    batches_.Release(batch_);
  }
}

void SendQueue::Attach(ibv_qp* qp, uint32_t inline_bytes) {
  qp_ = qp;
  inline_bytes_ = std::min(inline_bytes, kInlineBytesWanted);
}

}  // namespace verbena::transport
