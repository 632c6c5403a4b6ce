#include <algorithm>
#include <utility>

#include "transport/client/client_arenas.h"
#include "transport/session/connection.h"
#include "transport/wire/frame.h"
#include "transport/wire/sealed_part.h"

namespace verbena::transport {

// Gets memory for the message, the attachment and the lease, in this order,
// because the call can do without the lease.
bool ClientArenas::Allocate(const ClientCall::Request& request,
                            Placement placement, CallMemory* memory,
                            absl::Status* failure) {
  const auto allocate = [&](uint64_t bytes, Buffer* part) {
    // The server has memory and work in the reply that waits. `*failure` stays
    // OK: the request goes later.
    if (lease_waits_) return false;
    absl::StatusOr<Buffer> allocated = pool_.Allocate(bytes);
    if (!allocated.ok()) {
      *failure = allocated.status();
      return false;
    }
    *part = *std::move(allocated);
    return true;
  };
  if (!placement.message_inline) {
    // WriteRequest() writes the metadata in front of the message, in one piece.
    const uint64_t plain_bytes =
        AlignPart(request.metadata_bytes) + request.message_bytes;
    if (!allocate(seals_parts() ? SealedRequestBytes(request.message_bytes)
                                : plain_bytes,
                  &memory->request)) {
      return false;
    }
    if (seals_parts() && !AllocatePlain(plain_bytes, memory, failure))
      return false;
  }
  if (!placement.attachment_inline) {
    const Buffer* const buffer = request.attachment_buffer;
    const uint64_t bytes = request.attachment.size();
    if (!seals_parts() && buffer != nullptr && pool_.Owns(*buffer)) {
      // The count keeps the memory until the RESPONSE, even if the call ends
      // before for its caller.
      memory->attachment = buffer->Share();
    } else if (!allocate(seals_parts() ? SealedRequestBytes(bytes) : bytes,
                         &memory->attachment)) {
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

bool ClientArenas::AllocatePlain(uint64_t bytes, CallMemory* memory,
                                 absl::Status* failure) {
  memory->plain = AllocatePrivate(bytes);
  if (memory->plain.empty()) {
    *failure = absl::ResourceExhaustedError(
        "no memory for the request (see `ulimit -v`)");
  }
  return !memory->plain.empty();
}

bool ClientArenas::AllocateLease(uint64_t bytes, CallMemory* memory,
                                 absl::Status* failure) {
  absl::StatusOr<Buffer> lease = pool_.Allocate(bytes);
  if (!lease.ok()) {
    *failure = lease.status();
    return false;
  }
  memory->reply = *std::move(lease);
  memory->reply.Extend();  // Lend all of the block.
  return true;
}

// Posts the binding ahead of the frame that names its key. The queue pair keeps
// the order, so the server never uses a key that is not bound yet.
bool ClientArenas::Lend(Connection& connection, CallMemory* memory) {
  SendQueue& queue = connection.send_queue();
  if (!queue.HasFrameRoom()) return false;
  LeaseWindow* const window = windows_.Take();
  if (window == nullptr) return false;
  const Buffer& lease = memory->reply;
  const ibv_mw_bind_info part = {
      .mr = known_[lease.region()].registration,
      .addr = reinterpret_cast<uint64_t>(lease.data()),
      .length = lease.size(),
      .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
  // From here on the server may write there, for all this side knows.
  window->bound = true;
  memory->window = window;
  const int error = queue.PostBind(window->window->get(), window->rkey, part);
  if (error != 0) connection.FailPostSlow(error);
  return error == 0;
}

void ClientArenas::TakeBack(Connection& connection, CallMemory* memory) {
  LeaseWindow* const window = std::exchange(memory->window, nullptr);
  // The window keeps the memory until the device has invalidated the key,
  // because the server may write there until then.
  window->taken_back = std::move(memory->reply);
  to_take_back_.push_back(window);
  PostTakeBacks(connection);
  if (take_backs_due()) connection.NoteWaiting();
}

void ClientArenas::PostTakeBacks(Connection& connection) {
  SendQueue& queue = connection.send_queue();
  while (!to_take_back_.empty() && connection.usable() && queue.HasBulkRoom()) {
    LeaseWindow* const window = to_take_back_.back();
    to_take_back_.pop_back();
    const int error = queue.PostInvalidate(window->rkey, window);
    if (error != 0) connection.FailPostSlow(error);
  }
}

void ClientArenas::OnTakenBack(void* tag) {
  LeaseWindow* const window = static_cast<LeaseWindow*>(tag);
  window->bound = false;
  // The device lets nobody write there any more, so others may have the memory.
  window->taken_back.Reset();
  windows_.GiveBack(window);
}

void ClientArenas::Free(Poller& poller, CallMemory* memory) {
  if (memory->window != nullptr) {
    windows_.GiveBack(std::exchange(memory->window, nullptr));
  }
  memory->Free(poller);
}

}  // namespace verbena::transport
