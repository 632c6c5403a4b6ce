#include "transport/connection/send_slots.h"

#include <infiniband/verbs.h>

#include <utility>

#include "transport/base/status_macros.h"

namespace verbena::transport {

absl::StatusOr<SendSlots> SendSlots::Create(const ProtectionDomain& pd,
                                            uint32_t max_slots) {
  SendSlots slots(pd, max_slots);
  // The first slab always is there, so whoever waits for a slot waits for
  // somebody who holds one.
  RETURN_IF_ERROR(slots.AddSlab());
  return slots;
}

SendSlots::SendSlots(const ProtectionDomain& pd, uint32_t max_slots)
    : pd_(&pd), max_slabs_((max_slots + kSlabSlots - 1) / kSlabSlots) {}

absl::Status SendSlots::AddSlab() {
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

bool SendSlots::Grow() {
  if (!CanGrow()) return false;
  if (AddSlab().ok()) return true;
  // No more memory can be locked: what there is has to do.
  max_slabs_ = static_cast<uint32_t>(slabs_.size());
  return false;
}

}  // namespace verbena::transport
