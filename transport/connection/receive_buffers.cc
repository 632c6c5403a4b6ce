#include "transport/connection/receive_buffers.h"

#include <utility>

#include "transport/base/check.h"
#include "transport/base/status_macros.h"

namespace verbena::transport {

absl::StatusOr<ReceiveBuffers> ReceiveBuffers::Create(
    const ProtectionDomain& pd, uint32_t max_reserved) {
  ASSIGN_OR_RETURN(SharedReceiveQueue queue,
                   SharedReceiveQueue::Create(pd, QueueDepth(max_reserved)));
  return ReceiveBuffers(pd, std::move(queue), max_reserved);
}

ReceiveBuffers::ReceiveBuffers(const ProtectionDomain& pd,
                               SharedReceiveQueue queue, uint32_t max_reserved)
    : max_reserved_(max_reserved), slabs_(pd), queue_(std::move(queue)) {}

void ReceiveBuffers::SetReserved(uint32_t reserved) {
  reserved_ = reserved;
  wanted_ = QueueDepth(reserved);
  // What is not for those that are being read may wait for a doorbell.
  batch_ = std::min(Extra(reserved) - std::min(reserved, kPollBatch), kBatch);
}

absl::Status ReceiveBuffers::Reserve(uint32_t count) {
  CHECK_LE(count, room());
  const uint32_t wanted = QueueDepth(reserved_ + count);
  while (posted_ + slabs_.free_count() < wanted) RETURN_IF_ERROR(slabs_.Grow());
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
  return pending_count_ < batch_ ? absl::OkStatus() : Flush();
}

absl::Status ReceiveBuffers::Fill() {
  while (posted_ < wanted_) {
    ++posted_;
    pending_[pending_count_++] = slabs_.Take();
    if (pending_count_ == kBatch) RETURN_IF_ERROR(Flush());
  }
  return Flush();
}

// They are free again, and whoever reserves next posts them.
void ReceiveBuffers::TakeBackSlow(ptrdiff_t first) {
  for (size_t i = static_cast<size_t>(first); i < pending_count_; ++i) {
    slabs_.Return(pending_[i]);
    --posted_;
  }
}

}  // namespace verbena::transport
