#include "transport/streams/long_message.h"

#include <cstring>
#include <utility>

#include "transport/wire/frame.h"

namespace verbena::transport {

void LongMessage::LeavePool(const BufferPool& pool) {
  for (Buffer* const part : {&message, &attachment}) {
    if (!pool.Owns(*part)) continue;
    Buffer plain = Buffer::PlainIfAny(part->size());
    // Without memory the part stays where it is: others wait on.
    if (plain.empty()) continue;
    std::memcpy(plain.data(), part->data(), part->size());
    *part = std::move(plain);
  }
}

// Leaves out of the frame what lies in an arena, and says where it is. Callers
// place no message all inline, so the body holds one part at most.
bool SendMessageFrame(FrameSender& connection, uint32_t call_id,
                      const LongMessage& message, Placement place,
                      ArenaPlace message_at, ArenaPlace attachment_at) {
  LongMessageHeader header = {};
  header.frame = FrameSender::PlainHeader(FrameType::kMessage, call_id);
  header.frame.header_bytes = sizeof(header);
  header.message_bytes = static_cast<uint32_t>(message.message.size());
  header.attachment_bytes = static_cast<uint32_t>(message.attachment.size());
  absl::Span<const uint8_t> body;
  if (place.message_inline) {
    body = message.message.span();
  } else {
    header.frame.flags |= kFlagMessageInArena;
    header.message_arena = message_at.arena;
    header.message_offset = message_at.offset;
  }
  if (place.attachment_inline) {
    // At least one part is not inline.
    body = message.attachment.span();
  } else {
    header.frame.flags |= kFlagAttachmentInArena;
    header.attachment_arena = attachment_at.arena;
    header.attachment_offset = attachment_at.offset;
  }
  header.frame.body_bytes = static_cast<uint32_t>(body.size());
  const uint32_t bytes = static_cast<uint32_t>(sizeof(header) + body.size());
  // Spares as many credits as a request does, so that CANCEL, LEASE and ARENA
  // find one.
  uint8_t* const out =
      connection.BeginFrame(bytes, connection.credit_flow().RequestReserve());
  if (out == nullptr) return false;
  std::memcpy(out, &header, sizeof(header));
  if (!body.empty()) {
    std::memcpy(out + sizeof(header), body.data(), body.size());
  }
  connection.Send(bytes);
  return true;
}

}  // namespace verbena::transport
