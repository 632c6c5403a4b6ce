#include "transport/device/send_buffers.h"

#include <algorithm>

#include "transport/base/status_macros.h"

namespace verbena::transport {

absl::StatusOr<SendBuffers> SendBuffers::Create(const ProtectionDomain& pd,
                                                uint32_t shared,
                                                uint32_t reserved) {
  SendBuffers buffers(pd, shared, reserved);
  // The first slab always is there, so whoever waits for a buffer waits for
  // somebody who holds one.
  RETURN_IF_ERROR(buffers.slabs_.Grow());
  return buffers;
}

SendBuffers::SendBuffers(const ProtectionDomain& pd, uint32_t shared,
                         uint32_t reserved)
    : slabs_(pd),
      shared_slabs_((shared + kSlabBuffers - 1) / kSlabBuffers),
      max_slabs_(shared_slabs_ + (reserved + kSlabBuffers - 1) / kSlabBuffers) {
}

bool SendBuffers::Grow() {
  if (!CanGrow()) return false;
  if (slabs_.Grow().ok()) return true;
  // No more memory can be locked: what there is has to do.
  max_slabs_ = static_cast<uint32_t>(slabs_.slab_count());
  shared_slabs_ = std::min(shared_slabs_, max_slabs_);
  return false;
}

}  // namespace verbena::transport
