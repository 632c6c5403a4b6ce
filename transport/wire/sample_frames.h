// Frames for tests.

#ifndef VERBENA_TRANSPORT_WIRE_SAMPLE_FRAMES_H_
#define VERBENA_TRANSPORT_WIRE_SAMPLE_FRAMES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "transport/wire/frame.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {

// `header` and a body of `body_bytes`, in memory of exactly that size, so that
// a sanitizer sees reads outside of it.
template <typename Header>
std::vector<uint8_t> Frame(const Header& header, size_t body_bytes) {
  std::vector<uint8_t> bytes(sizeof(header) + body_bytes, 0xab);
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

inline FrameHeader PlainHeader(FrameType type) {
  return {.type = type,
          .flags = 0,
          .header_bytes = HeaderBytes(type),
          .credit_limit = 7,
          .call_id = 0,
          .body_bytes = 0};
}

// All three parts inline, no lease.
inline RequestHeader InlineRequest() {
  RequestHeader request = {};
  request.frame = PlainHeader(FrameType::kRequest);
  request.frame.call_id = 0x00010002;
  request.frame.body_bytes = 3 + 10 + 5;
  request.metadata_bytes = 3;
  request.message_bytes = 10;
  request.attachment_bytes = 5;
  return request;
}

// Message and attachment in arenas, with a lease.
inline RequestHeader ArenaRequest() {
  RequestHeader request = InlineRequest();
  request.frame.flags =
      kFlagMessageInArena | kFlagAttachmentInArena | kFlagReplyLease;
  request.frame.body_bytes = 3;
  request.message_bytes = 1 << 20;
  request.message_offset = 4096;
  request.message_arena = 1;
  request.attachment_bytes = UINT32_MAX;
  request.attachment_offset = 8192;
  request.attachment_arena = 2;
  request.reply_offset = 12288;
  request.reply_bytes = 65536;
  request.reply_arena = 3;
  return request;
}

// ArenaRequest() with a key of its own to the lease.
inline RequestHeader KeyedRequest() {
  RequestHeader request = ArenaRequest();
  request.frame.flags |= kFlagLeaseKey;
  request.frame.body_bytes += sizeof(LeaseKey);
  return request;
}

inline ResponseHeader InlineResponse() {
  ResponseHeader response = {};
  response.frame = PlainHeader(FrameType::kResponse);
  response.frame.call_id = 0x00010002;
  response.frame.body_bytes = 4 + 3 + 10 + 5;
  response.code = 5;
  response.status_message_bytes = 4;
  response.metadata_bytes = 3;
  response.message_bytes = 10;
  response.attachment_bytes = 5;
  return response;
}

inline ResponsePendingHeader Pending() {
  return {.frame = PlainHeader(FrameType::kResponsePending),
          .message_bytes = 100000,
          .attachment_bytes = 0};
}

inline LeaseHeader Lease() {
  return {.frame = PlainHeader(FrameType::kLease),
          .offset = 4096,
          .bytes = 8192,
          .arena = 1,
          .zero = 0,
          .rkey = 0x1234};
}

inline ArenaHeader Arena() {
  return {.frame = PlainHeader(FrameType::kArena),
          .address = 0x7f0011223344,
          .bytes = 1 << 21,
          .rkey = 0x1234,
          .index = 1,
          .zero = 0};
}

inline ArenaHeader WithdrawnArena() {
  ArenaHeader arena = {};
  arena.frame = PlainHeader(FrameType::kArena);
  arena.index = 1;
  return arena;
}

// A request that begins a stream, with metadata.
inline RequestHeader StreamRequest() {
  RequestHeader request = {};
  request.frame = PlainHeader(FrameType::kRequest);
  request.frame.flags = kFlagStream;
  request.frame.call_id = 0x00010002;
  request.frame.body_bytes = 3;
  request.metadata_bytes = 3;
  return request;
}

inline FrameHeader Data() {
  FrameHeader data = PlainHeader(FrameType::kData);
  data.call_id = 0x00010002;
  data.body_bytes = 10;
  return data;
}

inline WindowHeader Window() {
  return {.frame = PlainHeader(FrameType::kWindow),
          .limit = 1 << 20,
          .message_limit = 5};
}

// The attachment in an arena, and the message beside it.
inline LongMessageHeader ArenaMessage() {
  LongMessageHeader message = {};
  message.frame = PlainHeader(FrameType::kMessage);
  message.frame.flags = kFlagAttachmentInArena;
  message.frame.call_id = 0x00010002;
  message.frame.body_bytes = 10;
  message.message_bytes = 10;
  message.attachment_bytes = 1 << 20;
  message.attachment_offset = 4096;
  message.attachment_arena = 1;
  return message;
}

inline FrameHeader MetadataHeader(uint8_t flags) {
  FrameHeader metadata = PlainHeader(FrameType::kMetadata);
  metadata.flags = flags;
  metadata.call_id = 0x00010002;
  return metadata;
}

inline ReturnHeader Return() {
  return {.frame = PlainHeader(FrameType::kReturn), .credits = 1, .zero = 0};
}

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_WIRE_SAMPLE_FRAMES_H_
