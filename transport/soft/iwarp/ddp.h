// The bytes of iWARP on a TCP stream: MPA frames (FPDU) that hold DDP segments
// of RDMAP messages (RFC 5044 without markers, 5041, 5040, 7306).
//
//   length    2   bytes from here to the padding
//   control   2   DDP: T, L, version; RDMAP: version, reserved, opcode
//   tagged:       STag 4, TO 8
//   untagged:     invalidated STag 4, QN 4, MSN 4, MO 4
//   payload
//   padding 0-3   to a multiple of four
//   CRC       4   CRC32C of all before it, least significant byte first; zero
//                 if the two sides have agreed on none
//
// All numbers but the CRC are big endian.

#ifndef VERBENA_TRANSPORT_SOFT_IWARP_DDP_H_
#define VERBENA_TRANSPORT_SOFT_IWARP_DDP_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "transport/soft/link/packet.h"

namespace verbena::soft {

enum class RdmapOpcode : uint8_t {
  kWrite = 0,
  kReadRequest = 1,
  kReadResponse = 2,
  kSend = 3,
  kSendInvalidate = 4,
  kSendSolicited = 5,
  kSendSolicitedInvalidate = 6,
  kTerminate = 7,
  kImmediate = 8,
  kImmediateSolicited = 9,
  kAtomicRequest = 10,
  kAtomicResponse = 11,
  // Reserved by RFC 7306: a message of this device to another of its kind.
  kExtended = 15,
};

// Untagged queues, which RDMAP names by number.
enum : uint32_t {
  kSendQueue = 0,
  kRequestQueue = 1,
  kTerminateQueue = 2,
  kAtomicResponseQueue = 3,
  kExtendedQueue = 4,
};
inline constexpr size_t kUntaggedQueues = 5;

inline constexpr size_t kFpduLengthBytes = 2;
inline constexpr size_t kCrcBytes = 4;
inline constexpr uint32_t kTaggedHeaderBytes = 14;
inline constexpr uint32_t kUntaggedHeaderBytes = 18;
inline constexpr size_t kSegmentHeaderBytesMax =
    kFpduLengthBytes + kUntaggedHeaderBytes;

// A DDP segment, without its payload.
struct DdpSegment {
  RdmapOpcode opcode = RdmapOpcode::kSend;
  bool tagged = false;
  bool last = false;
  // Two bits that RDMAP reserves, and that mean something only between two of
  // this device: immediate data follows the message, and kPacketUnhurried.
  bool immediate_follows = false;
  bool unhurried = false;
  uint32_t stag = 0;    // Of an untagged segment: the key to be invalidated.
  uint64_t offset = 0;  // TO, or MO, which has 32 bits.
  uint32_t queue = 0;   // Untagged segments only, and so is the next.
  uint32_t sequence = 0;
  uint32_t payload_bytes = 0;

  uint32_t header_bytes() const {
    return tagged ? kTaggedHeaderBytes : kUntaggedHeaderBytes;
  }
};

// Whether messages of this opcode carry data of any length, in any number of
// segments.
inline bool CarriesData(RdmapOpcode opcode) {
  switch (opcode) {
    case RdmapOpcode::kWrite:
    case RdmapOpcode::kReadResponse:
    case RdmapOpcode::kSend:
    case RdmapOpcode::kSendInvalidate:
    case RdmapOpcode::kSendSolicited:
    case RdmapOpcode::kSendSolicitedInvalidate:
      return true;
    default:
      return false;
  }
}

// Bytes of an FPDU whose length field has that value.
inline constexpr size_t FpduBytes(uint32_t length) {
  return ((kFpduLengthBytes + length + 3) & ~size_t{3}) + kCrcBytes;
}
inline constexpr size_t kFpduBytesMax = FpduBytes(0xffff);

// Writes the length and the header. Returns how many bytes that are.
size_t EncodeSegment(const DdpSegment& segment, std::byte* to);

// Reads the length and the header, of which `got` bytes are there. Returns null
// if they are all there and a correct peer can have said them, and else says
// why not: kTooFewBytes, or another text.
const char* ParseSegment(const std::byte* bytes, size_t got,
                         DdpSegment& segment);
extern const char kTooFewBytes[];

// The CRC32C of `bytes`, or of these behind others whose CRC32C is `before`.
uint32_t MpaCrc(const std::byte* bytes, size_t count, uint32_t before = 0);

// Payloads.

struct ReadRequestBody {
  static constexpr uint32_t kBytes = 28;
  uint32_t sink_stag = 0;
  uint64_t sink_offset = 0;
  uint32_t length = 0;
  uint32_t source_stag = 0;
  uint64_t source_offset = 0;

  void Encode(std::byte* to) const;
  static ReadRequestBody Parse(const std::byte* bytes);
};

struct AtomicRequestBody {
  static constexpr uint32_t kBytes = 52;
  static constexpr uint32_t kFetchAdd = 0;
  static constexpr uint32_t kCompareSwap = 2;
  uint32_t operation = kFetchAdd;
  uint32_t request = 0;  // A number that comes back with the answer.
  uint32_t stag = 0;
  uint64_t offset = 0;
  uint64_t add_or_swap = 0;
  // Bits that a swap writes. In an addition: bits from which nothing is carried
  // to the next, so none for a plain addition of 64 bits.
  uint64_t add_or_swap_mask = 0;
  uint64_t compare = 0;
  uint64_t compare_mask = 0;

  static AtomicRequestBody Of(PacketKind kind, const AtomicOperands& operands);
  // False if this device cannot do what the masks and the operation ask for.
  bool ToPacket(PacketKind& kind, AtomicOperands& operands) const;
  void Encode(std::byte* to) const;
  static AtomicRequestBody Parse(const std::byte* bytes);
};

struct AtomicResponseBody {
  static constexpr uint32_t kBytes = 12;
  uint32_t request = 0;
  uint64_t value = 0;  // Before the operation.

  void Encode(std::byte* to) const;
  static AtomicResponseBody Parse(const std::byte* bytes);
};

inline constexpr uint32_t kImmediateBytes = 8;

// Why a stream ends, in the terms of RFC 5040. The headers of the message that
// was refused do not follow.
struct TerminateBody {
  static constexpr uint32_t kBytes = 4;
  uint8_t layer = 0;  // 0 RDMAP, 1 DDP, 2 MPA.
  uint8_t type = 0;
  uint8_t code = 0;

  static TerminateBody Of(NakReason reason);
  void Encode(std::byte* to) const;
  static TerminateBody Parse(const std::byte* bytes);
  // Says the codes in words.
  const char* text() const;
};

// Payload bytes of a message that always has so many; 0 if they vary.
inline uint32_t BodyBytes(RdmapOpcode opcode) {
  switch (opcode) {
    case RdmapOpcode::kReadRequest:
      return ReadRequestBody::kBytes;
    case RdmapOpcode::kAtomicRequest:
      return AtomicRequestBody::kBytes;
    case RdmapOpcode::kAtomicResponse:
      return AtomicResponseBody::kBytes;
    case RdmapOpcode::kImmediate:
    case RdmapOpcode::kImmediateSolicited:
      return kImmediateBytes;
    default:
      return 0;
  }
}

// Big-endian numbers at any address.
inline void StoreBig16(std::byte* to, uint16_t value) {
  value = __builtin_bswap16(value);
  std::memcpy(to, &value, sizeof(value));
}
inline void StoreBig32(std::byte* to, uint32_t value) {
  value = __builtin_bswap32(value);
  std::memcpy(to, &value, sizeof(value));
}
inline void StoreBig64(std::byte* to, uint64_t value) {
  value = __builtin_bswap64(value);
  std::memcpy(to, &value, sizeof(value));
}
inline uint16_t LoadBig16(const std::byte* from) {
  uint16_t value;
  std::memcpy(&value, from, sizeof(value));
  return __builtin_bswap16(value);
}
inline uint32_t LoadBig32(const std::byte* from) {
  uint32_t value;
  std::memcpy(&value, from, sizeof(value));
  return __builtin_bswap32(value);
}
inline uint64_t LoadBig64(const std::byte* from) {
  uint64_t value;
  std::memcpy(&value, from, sizeof(value));
  return __builtin_bswap64(value);
}
static_assert(std::endian::native == std::endian::little);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_IWARP_DDP_H_
