#include <algorithm>
#include <utility>

#include "transport/connection/client_arenas.h"
#include "transport/wire/frame.h"

namespace verbena::transport {

bool ClientArenas::Allocate(const ClientCall::Request& request,
                            Placement placement, CallMemory* memory,
                            absl::Status* failure) {
  const auto allocate = [&](uint64_t bytes, Buffer* part) {
    if (lease_waits_) return false;
    absl::StatusOr<Buffer> allocated = pool_.Allocate(bytes);
    if (!allocated.ok()) {
      *failure = allocated.status();
      return false;
    }
    *part = *std::move(allocated);
    return true;
  };
  if (!placement.message_inline &&
      !allocate(AlignPart(request.metadata_bytes) + request.message_bytes,
                &memory->request)) {
    return false;
  }
  if (!placement.attachment_inline) {
    const Buffer* const buffer = request.attachment_buffer;
    if (buffer != nullptr && pool_.Owns(*buffer)) {
      memory->attachment = buffer->Share();
    } else if (!allocate(request.attachment.size(), &memory->attachment)) {
      return false;
    }
  }
  const uint64_t hint =
      std::min<uint64_t>(request.reply_hint_bytes, max_reply_bytes_);
  if (hint > kFrameReplyBytes && !lease_waits_) {
    // Without a lease the call only takes a round trip more.
    absl::Status no_matter;
    AllocateLease(hint, memory, &no_matter);
  }
  return true;
}

bool ClientArenas::AllocateLease(uint64_t bytes, CallMemory* memory,
                                 absl::Status* failure) {
  absl::StatusOr<Buffer> lease = pool_.Allocate(bytes);
  if (!lease.ok()) {
    *failure = lease.status();
    return false;
  }
  memory->reply = *std::move(lease);
  memory->reply.Extend();  // What is there anyway may be lent.
  return true;
}

}  // namespace verbena::transport
