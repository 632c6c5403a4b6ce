#include "transport/server/server_call.h"

#include <utility>

#include "transport/wire/sealed_part.h"

namespace verbena::transport {
namespace {

// Memory that a call keeps for messages that come beside large attachments,
// which are mostly a few fields. Each call of a connection may keep so much.
constexpr size_t kHeldBytesKept = 512;

}  // namespace

void CallRequest::ReleaseOwnMessage() {
  owns_message = false;
  memory.Reset();
  if (held_message.capacity() > kHeldBytesKept) held_message = {};
}

uint32_t CallReply::LeaseNeeded(bool sealed) const {
  return static_cast<uint32_t>(
      ReplyLeaseBytes(sealed, place.message_inline ? 0 : content.message_bytes,
                      place.attachment_inline ? 0 : attachment_bytes));
}

void CallReply::Release() {
  ReplyWriter* const writer = std::exchange(content.writer, nullptr);
  content.buffer.Reset();
  content.attachment.Reset();
  content.metadata_bytes = 0;
  content.long_metadata = std::string();
  content.message_bytes = 0;
  // Last: the writer may be destroyed by it.
  if (writer != nullptr) writer->OnReplyDone();
}

}  // namespace verbena::transport
