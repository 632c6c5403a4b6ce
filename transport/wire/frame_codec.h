// Writes frames, and checks those of the peer before anybody uses a field.

#ifndef VERBENA_TRANSPORT_WIRE_FRAME_CODEC_H_
#define VERBENA_TRANSPORT_WIRE_FRAME_CODEC_H_

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
