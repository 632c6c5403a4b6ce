#include "transport/connection/slot_slabs.h"

#include <infiniband/verbs.h>

#include <utility>

#include "transport/base/status_macros.h"

namespace verbena::transport {

absl::Status SlotSlabs::Grow() {
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

}  // namespace verbena::transport
