#include "transport/connection/receive_slots.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/status_macros.h"

namespace verbena::transport {

absl::StatusOr<ReceiveSlots> ReceiveSlots::Create(const ProtectionDomain& pd,
                                                  uint32_t max_connections) {
  ASSIGN_OR_RETURN(SharedReceiveQueue queue,
                   SharedReceiveQueue::Create(pd, QueueDepth(max_connections)));
  ReceiveSlots slots(pd, std::move(queue), max_connections);
  RETURN_IF_ERROR(slots.AddSlab());
  static_assert(kExtra <= kReceivesPerConnection);
  for (uint32_t i = 0; i < kExtra; ++i) RETURN_IF_ERROR(slots.Repost(i));
  RETURN_IF_ERROR(slots.Flush());
  return slots;
}

ReceiveSlots::ReceiveSlots(const ProtectionDomain& pd, SharedReceiveQueue queue,
                           uint32_t max_connections)
    : pd_(&pd), max_connections_(max_connections), queue_(std::move(queue)) {}

absl::Status ReceiveSlots::AddSlab() {
  ASSIGN_OR_RETURN(RegisteredMemory memory,
                   RegisteredMemory::Create(
                       *pd_, size_t{kReceivesPerConnection} * kSlotBytes,
                       IBV_ACCESS_LOCAL_WRITE));
  slabs_.push_back(std::move(memory));
  return absl::OkStatus();
}

absl::Status ReceiveSlots::Reserve() {
  if (reserved_ == max_connections_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "all ", max_connections_, " connections of this poller are in use"));
  }
  // Slab 0 holds the extra slots; connection n brings slab n.
  if (slabs_.size() == reserved_ + 1) {
    RETURN_IF_ERROR(AddSlab());
    const uint32_t first =
        static_cast<uint32_t>(slabs_.size() - 1) * kReceivesPerConnection;
    for (uint32_t i = 0; i < kReceivesPerConnection; ++i) {
      RETURN_IF_ERROR(Repost(first + i));
    }
    RETURN_IF_ERROR(Flush());
  }
  ++reserved_;
  return absl::OkStatus();
}

}  // namespace verbena::transport
