#include "transport/connection/receive_slots.h"

#include <utility>

#include "transport/base/check.h"
#include "transport/base/status_macros.h"

namespace verbena::transport {

absl::StatusOr<ReceiveSlots> ReceiveSlots::Create(const ProtectionDomain& pd,
                                                  uint32_t max_reserved) {
  ASSIGN_OR_RETURN(SharedReceiveQueue queue,
                   SharedReceiveQueue::Create(pd, QueueDepth(max_reserved)));
  return ReceiveSlots(pd, std::move(queue), max_reserved);
}

ReceiveSlots::ReceiveSlots(const ProtectionDomain& pd, SharedReceiveQueue queue,
                           uint32_t max_reserved)
    : pd_(&pd), max_reserved_(max_reserved), queue_(std::move(queue)) {}

absl::Status ReceiveSlots::AddSlab() {
  ASSIGN_OR_RETURN(
      RegisteredMemory memory,
      RegisteredMemory::Create(*pd_, size_t{kSlabSlots} * kSlotBytes,
                               IBV_ACCESS_LOCAL_WRITE));
  const uint32_t first = static_cast<uint32_t>(slabs_.size()) * kSlabSlots;
  slabs_.push_back(std::move(memory));
  free_.reserve(slabs_.size() * kSlabSlots);
  for (uint32_t i = kSlabSlots; i > 0; --i) free_.push_back(first + i - 1);
  return absl::OkStatus();
}

void ReceiveSlots::SetReserved(uint32_t reserved) {
  reserved_ = reserved;
  wanted_ = QueueDepth(reserved);
  // What is not for those that are being read may wait for a doorbell.
  batch_ = std::min(Extra(reserved) - std::min(reserved, kPollBatch), kBatch);
}

absl::Status ReceiveSlots::Reserve(uint32_t count) {
  CHECK_LE(count, room());
  const uint32_t wanted = QueueDepth(reserved_ + count);
  while (posted_ + free_.size() < wanted) RETURN_IF_ERROR(AddSlab());
  SetReserved(reserved_ + count);
  absl::Status status = Fill();
  if (!status.ok()) SetReserved(reserved_ - count);
  return status;
}

absl::Status ReceiveSlots::Unreserve(uint32_t count) {
  CHECK_LE(count, reserved_);
  SetReserved(reserved_ - count);
  return pending_count_ < batch_ ? absl::OkStatus() : Flush();
}

absl::Status ReceiveSlots::Fill() {
  while (posted_ < wanted_) {
    const uint32_t index = free_.back();
    free_.pop_back();
    ++posted_;
    pending_[pending_count_++] = index;
    if (pending_count_ == kBatch) RETURN_IF_ERROR(Flush());
  }
  return Flush();
}

}  // namespace verbena::transport
