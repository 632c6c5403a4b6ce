#include "transport/connection/send_buffers.h"

#include "transport/base/status_macros.h"

namespace verbena::transport {

absl::StatusOr<SendBuffers> SendBuffers::Create(const ProtectionDomain& pd,
                                                uint32_t max_buffers) {
  SendBuffers buffers(pd, max_buffers);
  // The first slab always is there, so whoever waits for a buffer waits for
  // somebody who holds one.
  RETURN_IF_ERROR(buffers.slabs_.Grow());
  return buffers;
}

SendBuffers::SendBuffers(const ProtectionDomain& pd, uint32_t max_buffers)
    : slabs_(pd), max_slabs_((max_buffers + kSlabBuffers - 1) / kSlabBuffers) {}

bool SendBuffers::Grow() {
  if (!CanGrow()) return false;
  if (slabs_.Grow().ok()) return true;
  // No more memory can be locked: what there is has to do.
  max_slabs_ = static_cast<uint32_t>(slabs_.slab_count());
  return false;
}

}  // namespace verbena::transport
