// Writes frames, and checks those of the peer before anybody uses a field.

#ifndef VERBENA_TRANSPORT_WIRE_FRAME_CODEC_H_
#define VERBENA_TRANSPORT_WIRE_FRAME_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "transport/wire/frame.h"

namespace verbena::transport {

// Bytes of the header of `type`.
uint16_t HeaderBytes(FrameType type);

// "REQUEST", for messages.
const char* FrameTypeName(FrameType type);

// Checks what can be checked of a received frame without knowing the state of
// the connection: the length, the type, the flags, that the parts it claims
// fill its body exactly, that unused fields are zero. Of a frame that is
// continued only the beginning of the body is there. Returns null if all is
// well, else what is wrong, for the status and the BYE (static storage). Never
// reads outside `frame`. Allocates nothing.
const char* FrameError(absl::Span<const uint8_t> frame);

// Whether it is all of a REQUEST or RESPONSE that is a message and nothing
// else, as most are: a good status, no metadata, no attachment, nothing in an
// arena and no lease. FrameError() finds nothing wrong with such a frame. Never
// reads outside `frame`.
inline bool IsPlainCall(absl::Span<const uint8_t> frame) {
  if (frame.size() < sizeof(FrameHeader)) return false;
  FrameHeader header;
  std::memcpy(&header, frame.data(), sizeof(header));
  // All that a plain frame must leave zero stands at the end of its header, but
  // for its length, and for the flags that say where its parts are.
  constexpr size_t kRequestRest = offsetof(RequestHeader, message_offset);
  constexpr size_t kResponseRest = offsetof(ResponseHeader, code);
  static_assert(sizeof(RequestHeader) ==
                kRequestRest + 4 + 3 * sizeof(uint64_t));
  static_assert(offsetof(RequestHeader, message_bytes) == kRequestRest - 4);
  static_assert(offsetof(ResponseHeader, message_bytes) == kResponseRest + 8);
  uint32_t message_bytes = 0;
  uint64_t rest = header.flags & static_cast<uint8_t>(~kFlowFlags);
  if (header.type == FrameType::kResponse) {
    if (frame.size() < sizeof(ResponseHeader)) return false;
    uint64_t status;
    uint32_t attachment_bytes;
    std::memcpy(&status, frame.data() + kResponseRest, sizeof(status));
    std::memcpy(&message_bytes, frame.data() + kResponseRest + 8, 4);
    std::memcpy(&attachment_bytes, frame.data() + kResponseRest + 12, 4);
    rest |= status | attachment_bytes;
  } else if (header.type == FrameType::kRequest) {
    if (frame.size() < sizeof(RequestHeader)) return false;
    uint32_t message_offset;
    uint64_t parts[3];
    std::memcpy(&message_bytes, frame.data() + kRequestRest - 4, 4);
    std::memcpy(&message_offset, frame.data() + kRequestRest, 4);
    std::memcpy(parts, frame.data() + kRequestRest + 4, sizeof(parts));
    rest |= message_offset | parts[0] | parts[1] | parts[2];
  } else {
    return false;
  }
  const size_t header_bytes = header.type == FrameType::kRequest
                                  ? sizeof(RequestHeader)
                                  : sizeof(ResponseHeader);
  return rest == 0 && header.header_bytes == header_bytes &&
         message_bytes == header.body_bytes &&
         frame.size() == header_bytes + size_t{message_bytes};
}

// The length of the first frame of what one SEND brought, as its header has it;
// all of it if there is no header.
inline size_t FirstFrameBytes(absl::Span<const uint8_t> received) {
  if (received.size() < sizeof(FrameHeader)) return received.size();
  FrameHeader header;
  std::memcpy(&header, received.data(), sizeof(header));
  return header.header_bytes + size_t{header.body_bytes};
}

// Checks a frame of a train but for the first one, as FrameError() does, and
// what is said of trains in frame.h. `plain` is IsPlainCall(frame).
const char* TrainFrameError(absl::Span<const uint8_t> frame, bool plain);

// The header of a frame in a receive buffer, where it stands: nobody writes
// there until the buffer is posted again. REQUIRES: as for LoadHeader(), and
// that the frame begins on a multiple of 8, as frames in such buffers do.
template <typename Header>
const Header& HeaderIn(absl::Span<const uint8_t> frame) {
  return *reinterpret_cast<const Header*>(frame.data());
}

// Copies the header out of a received frame, since the memory may be unaligned.
// REQUIRES: FrameError(frame) was null and Header is the header of its type, or
// FrameHeader.
template <typename Header>
Header LoadHeader(absl::Span<const uint8_t> frame) {
  Header header;
  std::memcpy(&header, frame.data(), sizeof(header));
  return header;
}

// The parts of a body, in the order in which they stand. Parts that are in an
// arena are empty here.
struct RequestBody {
  uint32_t lease_rkey = 0;  // From its LeaseKey; 0 if there is none.
  absl::Span<const uint8_t> metadata;
  absl::Span<const uint8_t> message;
  absl::Span<const uint8_t> attachment;
};
struct ResponseBody {
  absl::Span<const uint8_t> status_message;
  absl::Span<const uint8_t> metadata;
  absl::Span<const uint8_t> message;
  absl::Span<const uint8_t> attachment;
};

// REQUIRES: FrameError(frame) was null; the type fits; all of it is there.
RequestBody SplitRequest(absl::Span<const uint8_t> frame);
ResponseBody SplitResponse(absl::Span<const uint8_t> frame);
// The body of any other type.
absl::Span<const uint8_t> FrameBody(absl::Span<const uint8_t> frame);

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_WIRE_FRAME_CODEC_H_
