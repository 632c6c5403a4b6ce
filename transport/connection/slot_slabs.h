// Registered memory in slots, which send and receive slots are made of.

#ifndef VERBENA_TRANSPORT_CONNECTION_SLOT_SLABS_H_
#define VERBENA_TRANSPORT_CONNECTION_SLOT_SLABS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "transport/base/limits.h"
#include "transport/memory/registered_memory.h"
#include "transport/verbs/protection_domain.h"

namespace verbena::transport {

// Slots of kSlotBytes by index, registered in slabs and never given back, and
// the list of those that are free. Not thread-safe. The protection domain must
// outlive it.
class SlotSlabs {
 public:
  // Slots that are registered together.
  static constexpr uint32_t kSlabSlots = 16;

  // Holds nothing; for assignment.
  SlotSlabs() = default;
  explicit SlotSlabs(const ProtectionDomain& pd) : pd_(&pd) {}

  // Registers one more slab, whose slots are free.
  absl::Status Grow();

  size_t slab_count() const { return slabs_.size(); }
  size_t free_count() const { return free_.size(); }

  // The free slot that was used last. REQUIRES: free_count() > 0.
  uint32_t Take() {
    const uint32_t index = free_.back();
    free_.pop_back();
    return index;
  }
  void Return(uint32_t index) { free_.push_back(index); }

  uint8_t* Slot(uint32_t index) const {
    return slabs_[index / kSlabSlots].data() +
           size_t{index % kSlabSlots} * kSlotBytes;
  }
  uint32_t lkey(uint32_t index) const {
    return slabs_[index / kSlabSlots].lkey();
  }
  size_t registered_bytes() const {
    return slabs_.size() * kSlabSlots * kSlotBytes;
  }

 private:
  const ProtectionDomain* pd_ = nullptr;
  std::vector<RegisteredMemory> slabs_;
  std::vector<uint32_t> free_;  // With room for all of them.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CONNECTION_SLOT_SLABS_H_
