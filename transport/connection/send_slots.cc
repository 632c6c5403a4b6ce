#include "transport/connection/send_slots.h"

#include "transport/base/status_macros.h"

namespace verbena::transport {

absl::StatusOr<SendSlots> SendSlots::Create(const ProtectionDomain& pd,
                                            uint32_t max_slots) {
  SendSlots slots(pd, max_slots);
  // The first slab always is there, so whoever waits for a slot waits for
  // somebody who holds one.
  RETURN_IF_ERROR(slots.slabs_.Grow());
  return slots;
}

SendSlots::SendSlots(const ProtectionDomain& pd, uint32_t max_slots)
    : slabs_(pd), max_slabs_((max_slots + kSlabSlots - 1) / kSlabSlots) {}

bool SendSlots::Grow() {
  if (!CanGrow()) return false;
  if (slabs_.Grow().ok()) return true;
  // No more memory can be locked: what there is has to do.
  max_slabs_ = static_cast<uint32_t>(slabs_.slab_count());
  return false;
}

}  // namespace verbena::transport
