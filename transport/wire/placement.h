// Which parts of a request or a reply travel in their frame, and how those that
// do not stand in a reply lease. Both sides go by this.

#ifndef VERBENA_TRANSPORT_WIRE_PLACEMENT_H_
#define VERBENA_TRANSPORT_WIRE_PLACEMENT_H_

#include <cstdint>

namespace verbena::transport {

// Copies are fastest from and to multiples of this.
inline constexpr uint64_t kPartAlignment = 64;

constexpr uint64_t AlignPart(uint64_t bytes) {
  return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
}

// Returns the bytes of a lease for a message and an attachment of these
// lengths, of which either may be 0. The message stands at its start, the
// attachment at the next multiple of kPartAlignment.
constexpr uint64_t LeaseBytes(uint64_t message_bytes,
                              uint64_t attachment_bytes) {
  return attachment_bytes == 0 ? message_bytes
                               : AlignPart(message_bytes) + attachment_bytes;
}

struct Placement {
  bool message_inline = true;
  bool attachment_inline = true;

  bool all_inline() const { return message_inline && attachment_inline; }
};

// The message goes into the frame if it fits into `room` bytes, then the
// attachment if it fits into what is left.
constexpr Placement PlaceParts(uint64_t room, uint64_t message_bytes,
                               uint64_t attachment_bytes) {
  Placement place;
  place.message_inline = message_bytes <= room;
  if (place.message_inline) room -= message_bytes;
  place.attachment_inline = attachment_bytes <= room;
  return place;
}

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_WIRE_PLACEMENT_H_
