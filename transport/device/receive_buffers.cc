#include "transport/device/receive_buffers.h"

#include <utility>

#include "transport/base/check.h"
#include "transport/base/status_macros.h"

namespace verbena::transport {

absl::StatusOr<ReceiveBuffers> ReceiveBuffers::Create(
    const ProtectionDomain& pd, BufferSlabs& slabs, uint32_t max_reserved) {
  ASSIGN_OR_RETURN(SharedReceiveQueue queue,
                   SharedReceiveQueue::Create(pd, QueueDepth(max_reserved)));
  return ReceiveBuffers(slabs, std::move(queue), max_reserved);
}

ReceiveBuffers::ReceiveBuffers(BufferSlabs& slabs, SharedReceiveQueue queue,
                               uint32_t max_reserved)
    : max_reserved_(max_reserved), slabs_(&slabs), queue_(std::move(queue)) {}

ReceiveBuffers::ReceiveBuffers(BufferSlabs& slabs, ibv_qp* qp,
                               uint32_t max_reserved)
    : max_reserved_(max_reserved), slabs_(&slabs), qp_(qp) {
  held_.reserve(QueueDepth(max_reserved));
}

void ReceiveBuffers::SetReserved(uint32_t reserved) {
  reserved_ = reserved;
  // A queue pair that is stopped wants none, so buffers that come back
  // are kept.
  wanted_ = stopped_ ? 0 : QueueDepth(reserved);
  // Buffers beyond those that may be read at once may wait for a doorbell.
  batch_ = std::min(Extra(reserved) - std::min(reserved, kPollBatch), kBatch);
}

// Registers memory first, and posts the receives last. An error in between
// leaves the reservation as it was.
absl::Status ReceiveBuffers::Reserve(uint32_t count) {
  CHECK_LE(count, room());
  const uint32_t wanted = QueueDepth(reserved_ + count);
  while (posted_ + slabs_->free_count() < wanted) {
    RETURN_IF_ERROR(slabs_->Grow());
  }
  SetReserved(reserved_ + count);
  absl::Status status = Fill();
  if (status.ok()) return status;
  SetReserved(reserved_ - count);
  // Some that were posted for others may have been refused with the new ones.
  Fill().IgnoreError();
  return status;
}

absl::Status ReceiveBuffers::Unreserve(uint32_t count) {
  CHECK_LE(count, reserved_);
  SetReserved(reserved_ - count);
  // The batch may be shorter now than what waits for its doorbell.
  return pending_count_ < batch_ ? absl::OkStatus() : Flush();
}

void ReceiveBuffers::Stop() {
  // Receives of a shared queue serve the other connections.
  if (qp_ == nullptr) return;
  stopped_ = true;
  SetReserved(reserved_);
  // Buffers that wait for a doorbell were not posted, so no completion brings
  // them back.
  while (pending_count_ > 0) Return(pending_[--pending_count_]);
}

void ReceiveBuffers::Leave() {
  if (qp_ == nullptr) return;
  Stop();
  // The queue pair is gone, and with it the completions of these.
  for (const uint32_t index : held_) slabs_->Return(index);
  held_.clear();
  posted_ = 0;
}

void ReceiveBuffers::Return(uint32_t index) {
  --posted_;
  // The search is short, and runs only when a window shrinks. If the index is
  // not held, the device has named it twice, and another queue may have it.
  if (qp_ != nullptr && std::erase(held_, index) == 0) return;
  slabs_->Return(index);
}

absl::Status ReceiveBuffers::Fill() {
  while (posted_ < wanted_) {
    ++posted_;
    const uint32_t index = slabs_->Take();
    if (qp_ != nullptr) held_.push_back(index);
    pending_[pending_count_++] = index;
    if (pending_count_ == kBatch) RETURN_IF_ERROR(Flush());
  }
  return Flush();
}

// They are free again, and whoever reserves next posts them.
void ReceiveBuffers::TakeBackSlow(ptrdiff_t first) {
  for (size_t i = static_cast<size_t>(first); i < pending_count_; ++i) {
    Return(pending_[i]);
  }
}

}  // namespace verbena::transport
