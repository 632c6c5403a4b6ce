// Registered memory for frames that are too long to be sent inline.

#ifndef VERBENA_TRANSPORT_CONNECTION_SEND_SLOTS_H_
#define VERBENA_TRANSPORT_CONNECTION_SEND_SLOTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/base/limits.h"
#include "transport/memory/registered_memory.h"
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
  static constexpr uint32_t kSlabSlots = 16;

  // Holds nothing; for assignment.
  SendSlots() = default;

  // Of at most `max_slots`, rounded up to whole slabs; registers the first.
  static absl::StatusOr<SendSlots> Create(const ProtectionDomain& pd,
                                          uint32_t max_slots);

  // Whether Acquire() would give one.
  bool available() const { return !free_.empty() || CanGrow(); }

  // Whether so many can be acquired one after another. Registers memory as
  // Acquire() does.
  bool Prepare(uint32_t count) {
    while (free_.size() < count) {
      if (!Grow()) return false;
    }
    return true;
  }

  // kNone if all are held. Registers memory when there have never been so many.
  uint32_t Acquire() {
    if (free_.empty() && !Grow()) return kNone;
    const uint32_t index = free_.back();
    free_.pop_back();
    return index;
  }
  void Release(uint32_t index) { free_.push_back(index); }

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
  SendSlots(const ProtectionDomain& pd, uint32_t max_slots);
  bool CanGrow() const { return slabs_.size() < max_slabs_; }
  absl::Status AddSlab();
  bool Grow();

  const ProtectionDomain* pd_ = nullptr;
  uint32_t max_slabs_ = 0;
  std::vector<RegisteredMemory> slabs_;
  std::vector<uint32_t> free_;  // The one used last is taken first.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CONNECTION_SEND_SLOTS_H_
