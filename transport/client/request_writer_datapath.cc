#include <cstring>

#include "transport/client/request_writer.h"
#include "transport/wire/checksum.h"

namespace verbena::transport {
namespace {

// Copies the attachment behind the rest of the body, or to its memory unless it
// is there already, and says in the header where it is.
void WriteAttachment(const ClientCall::Request& request, Placement placement,
                     const CallMemory& memory, RequestHeader* header,
                     uint8_t* out, PartSums* sums) {
  const absl::Span<const uint8_t> attachment = request.attachment;
  header->attachment_bytes = static_cast<uint32_t>(attachment.size());
  if (placement.attachment_inline) {
    std::memcpy(out + sizeof(*header) + header->frame.body_bytes,
                attachment.data(), attachment.size());
    header->frame.body_bytes += header->attachment_bytes;
    return;
  }
  // A Buffer of this connection's arenas is sent as it stands.
  if (memory.attachment.data() != attachment.data()) {
    std::memcpy(memory.attachment.data(), attachment.data(), attachment.size());
  }
  if (sums != nullptr) sums->attachment = Crc32c(memory.attachment.span());
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
                      uint8_t* out, PartSums* sums) {
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
    // The call writes both at once, so the metadata stand before the message in
    // the arena, which begins on a multiple of kPartAlignment; the frame gets a
    // copy of them.
    const uint32_t start =
        static_cast<uint32_t>(AlignPart(request.metadata_bytes));
    uint8_t* const metadata =
        memory.request.data() + start - request.metadata_bytes;
    call.WriteRequest(metadata);
    std::memcpy(body, metadata, request.metadata_bytes);
    if (sums != nullptr) {
      sums->message =
          Crc32c({memory.request.data() + start, header.message_bytes});
    }
    header.frame.flags |= kFlagMessageInArena;
    header.message_arena = memory.request.region();
    header.message_offset = memory.request.offset() + start;
  }
  if (!request.attachment.empty()) {
    WriteAttachment(request, placement, memory, &header, out, sums);
  }
  std::memcpy(out, &header, sizeof(header));
  return header.frame.header_bytes + header.frame.body_bytes;
}

}  // namespace verbena::transport
