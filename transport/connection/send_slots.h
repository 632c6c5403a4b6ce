// Registered memory for frames that are too long to be sent inline.

#ifndef VERBENA_TRANSPORT_CONNECTION_SEND_SLOTS_H_
#define VERBENA_TRANSPORT_CONNECTION_SEND_SLOTS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/connection/slot_slabs.h"
#include "transport/verbs/protection_domain.h"

namespace verbena::transport {

// Slots of kSlotBytes that all connections of a poller's device share. One is
// held from the moment a frame is begun until its completion, so an idle
// connection holds none. Memory grows with the largest number that was held at
// once, up to a bound; beyond it connections wait for one another.
//
// Not thread-safe: confined to the poller's role. The protection domain must
// outlive it.
class SendSlots {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  // Slots that are registered together.
  static constexpr uint32_t kSlabSlots = SlotSlabs::kSlabSlots;

  // Holds nothing; for assignment.
  SendSlots() = default;

  // Of at most `max_slots`, rounded up to whole slabs; registers the first.
  static absl::StatusOr<SendSlots> Create(const ProtectionDomain& pd,
                                          uint32_t max_slots);

  // Whether Acquire() would give one.
  bool available() const { return slabs_.free_count() > 0 || CanGrow(); }

  // Whether so many can be acquired one after another. Registers memory as
  // Acquire() does.
  bool Prepare(uint32_t count) {
    while (slabs_.free_count() < count) {
      if (!Grow()) return false;
    }
    return true;
  }

  // kNone if all are held. Registers memory when there have never been so many.
  uint32_t Acquire() {
    return slabs_.free_count() == 0 && !Grow() ? kNone : slabs_.Take();
  }
  void Release(uint32_t index) { slabs_.Return(index); }

  uint8_t* Slot(uint32_t index) const { return slabs_.Slot(index); }
  uint32_t lkey(uint32_t index) const { return slabs_.lkey(index); }

  size_t registered_bytes() const { return slabs_.registered_bytes(); }

 private:
  SendSlots(const ProtectionDomain& pd, uint32_t max_slots);
  bool CanGrow() const { return slabs_.slab_count() < max_slabs_; }
  bool Grow();

  SlotSlabs slabs_;
  uint32_t max_slabs_ = 0;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CONNECTION_SEND_SLOTS_H_
