#include "transport/session/send_queue.h"

#include <algorithm>

namespace verbena::transport {

SendQueue::~SendQueue() {
  if (spare_buffer_ != SendBuffers::kNone) buffers_.Release(spare_buffer_);
  // A device that never flushed what it had: the queue pair is gone, so it
  // touches nothing any more.
  while (!idle()) Complete(done_, [](void*) {});
  // The device has never seen these work requests.
  if (batch_ != nullptr) {
    batch_->Clear();
    batches_.Release(batch_);
  }
}

void SendQueue::Attach(ibv_qp* qp, uint32_t inline_bytes, uint32_t depth) {
  CHECK_GE(depth, kLeastSendDepth);
  qp_ = qp;
  inline_bytes_ = std::min(inline_bytes, kInlineBytesWanted);
  // In a shallow queue both kinds have fewer. The marker keeps its place, and
  // a queue that is full of frames has one that is signalled.
  bulk_.depth = std::clamp(depth / 4, 1u, kBulkDepth);
  frames_.depth = std::min(depth - 1 - bulk_.depth, kFrameDepth);
  signal_interval_ = std::min(frames_.depth, kSignalInterval);
}

}  // namespace verbena::transport
