#include <cstring>

#include "transport/client/request_writer.h"
#include "transport/wire/checksum.h"
#include "transport/wire/sealed_part.h"

namespace verbena::transport {
namespace {

// Seals a part to its memory in an arena. The tags come first, so that the
// server can open each chunk as soon as it has READ it.
void SealPart(Sealer* sealer, uint64_t first_chunk,
              absl::Span<const uint8_t> plain, const Buffer& memory) {
  PartSeal(sealer, first_chunk, plain,
           memory.data() + SealedRequestStart(plain.size()), memory.data())
      .SealTo(plain.size());
}

// Copies the attachment behind the rest of the body, or to its memory unless it
// is there already, and says in the header where it is.
void WriteAttachment(const ClientCall::Request& request, Placement placement,
                     const CallMemory& memory, RequestHeader* header,
                     uint8_t* out, PartGuard& guard) {
  const absl::Span<const uint8_t> attachment = request.attachment;
  header->attachment_bytes = static_cast<uint32_t>(attachment.size());
  if (placement.attachment_inline) {
    std::memcpy(out + sizeof(*header) + header->frame.body_bytes,
                attachment.data(), attachment.size());
    header->frame.body_bytes += header->attachment_bytes;
    return;
  }
  if (guard.sealer != nullptr) {
    const bool behind_message = !placement.message_inline;
    SealPart(guard.sealer,
             guard.first_chunk +
                 (behind_message ? SealChunks(request.message_bytes) : 0),
             attachment, memory.attachment);
  } else if (memory.attachment.data() != attachment.data()) {
    // A Buffer of this connection's arenas is sent as it stands.
    std::memcpy(memory.attachment.data(), attachment.data(), attachment.size());
  }
  if (guard.wants_sums) {
    guard.sums.attachment = Crc32c(memory.attachment.span());
  }
  header->frame.flags |= kFlagAttachmentInArena;
  header->attachment_arena = memory.attachment.region();
  header->attachment_offset = memory.attachment.offset();
}

}  // namespace

uint32_t RequestFrameBytes(const ClientCall::Request& request,
                           Placement placement, bool has_lease_key) {
  uint64_t bytes = sizeof(RequestHeader) + request.metadata_bytes;
  if (has_lease_key) bytes += sizeof(LeaseKey);
  if (placement.message_inline) bytes += request.message_bytes;
  if (placement.attachment_inline) bytes += request.attachment.size();
  return static_cast<uint32_t>(bytes);
}

// Writes each part to its place and notes that in the header, which is copied
// to `out` last. In the body a LeaseKey comes before all else.
uint32_t WriteRequest(ClientCall& call, uint32_t call_id, int64_t now_ns,
                      Placement placement, const CallMemory& memory,
                      uint8_t* out, PartGuard& guard) {
  const ClientCall::Request& request = call.request();
  RequestHeader header = {};
  header.frame.type = FrameType::kRequest;
  header.frame.header_bytes = sizeof(header);
  header.frame.call_id = call_id;
  header.frame.body_bytes = request.metadata_bytes;
  header.method_id = request.method_id;
  header.timeout_us = TimeoutUs(request.deadline, now_ns);
  header.metadata_bytes = static_cast<uint16_t>(request.metadata_bytes);
  header.message_bytes = static_cast<uint32_t>(request.message_bytes);
  if (!memory.reply.empty()) {
    header.frame.flags |= kFlagReplyLease;
    header.reply_arena = memory.reply.region();
    header.reply_offset = memory.reply.offset();
    header.reply_bytes = static_cast<uint32_t>(memory.reply.size());
  }
  uint8_t* body = out + sizeof(header);
  if (const LeaseKey key = {memory.lease_rkey(), 0}; key.rkey != 0) {
    header.frame.flags |= kFlagLeaseKey;
    header.frame.body_bytes += sizeof(key);
    std::memcpy(body, &key, sizeof(key));
    body += sizeof(key);
  }
  if (placement.message_inline) {
    header.frame.body_bytes += header.message_bytes;
    call.WriteRequest(body);
  } else {
    // The call writes both at once, so the metadata stand before the message,
    // which begins on a multiple of kPartAlignment; the frame gets a copy of
    // them. If the message is sealed, they are not written to the arena, which
    // others can read.
    const uint32_t start =
        static_cast<uint32_t>(AlignPart(request.metadata_bytes));
    const Buffer& home =
        guard.sealer != nullptr ? memory.plain : memory.request;
    uint8_t* const message = home.data() + start;
    uint8_t* const metadata = message - request.metadata_bytes;
    call.WriteRequest(metadata);
    std::memcpy(body, metadata, request.metadata_bytes);
    header.frame.flags |= kFlagMessageInArena;
    header.message_arena = memory.request.region();
    header.message_offset = memory.request.offset();
    if (guard.sealer != nullptr) {
      SealPart(guard.sealer, guard.first_chunk, {message, header.message_bytes},
               memory.request);
    } else {
      header.message_offset += start;
    }
    if (guard.wants_sums) {
      guard.sums.message = Crc32c({message, header.message_bytes});
    }
  }
  if (!request.attachment.empty()) {
    WriteAttachment(request, placement, memory, &header, out, guard);
  }
  std::memcpy(out, &header, sizeof(header));
  return header.frame.header_bytes + header.frame.body_bytes;
}

}  // namespace verbena::transport
