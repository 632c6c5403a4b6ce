// Messages between two of this device on an iWARP stream, for which iWARP has
// none.

#ifndef VERBENA_TRANSPORT_SOFT_IWARP_STREAM_MESSAGE_H_
#define VERBENA_TRANSPORT_SOFT_IWARP_STREAM_MESSAGE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/soft/link/cm_message.h"

namespace verbena::soft {

// A message of RdmapOpcode::kExtended: the kind, 4 bytes, and two words of 8,
// big endian; behind these, if the kind is kCm, the image of a CmMessage.
struct StreamMessage {
  enum class Kind : uint32_t {
    kAck = 1,     // words[0]: requests of the receiver that were executed.
    kNak = 2,     // The number of a request, and Packet::value of the NAK.
    kResume = 3,  // The next request has the number words[0].
    kCount = 4,   // A request of its own that is only counted.
    // For the user of the stream, who also checks them.
    kState = 5,  // words[0]: LinkNews::word().
    kCm = 6,
  };
  static constexpr uint32_t kHeadBytes = 20;
  static constexpr uint32_t kBytesMax = kHeadBytes + sizeof(CmMessage);

  Kind kind = Kind::kState;
  uint64_t words[2] = {0, 0};
  std::array<std::byte, sizeof(CmMessage)> cm = {};

  uint32_t bytes() const { return kind == Kind::kCm ? kBytesMax : kHeadBytes; }
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_IWARP_STREAM_MESSAGE_H_
