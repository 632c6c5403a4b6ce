#include "transport/soft/iwarp/ddp.h"

#include <isa-l/crc.h>

namespace verbena::soft {
namespace {

// The two octets of control, in the order of the wire.
constexpr uint16_t kTagged = 0x8000;
constexpr uint16_t kLast = 0x4000;
constexpr uint16_t kDdpVersionMask = 0x0300;
constexpr uint16_t kDdpVersion = 0x0100;
constexpr uint16_t kRdmapVersionMask = 0x00c0;
constexpr uint16_t kRdmapVersion = 0x0040;
constexpr uint16_t kImmediateFollows = 0x0020;
constexpr uint16_t kUnhurried = 0x0010;
constexpr uint16_t kOpcodeMask = 0x000f;

constexpr uint64_t kAllBits = ~uint64_t{0};

// Where messages of an opcode go; -1 if they are tagged, -2 if there are none.
constexpr int kTaggedMessage = -1;
constexpr int kNoMessage = -2;
constexpr int kPlaces[16] = {
    kTaggedMessage, kRequestQueue, kTaggedMessage, kSendQueue,
    kSendQueue,     kSendQueue,    kSendQueue,     kTerminateQueue,
    kSendQueue,     kSendQueue,    kRequestQueue,  kAtomicResponseQueue,
    kNoMessage,     kNoMessage,    kNoMessage,     kExtendedQueue};

}  // namespace

const char kTooFewBytes[] = "the header has not come whole";

size_t EncodeSegment(const DdpSegment& segment, std::byte* to) {
  uint16_t control =
      kDdpVersion | kRdmapVersion | static_cast<uint16_t>(segment.opcode);
  if (segment.tagged) control |= kTagged;
  if (segment.last) control |= kLast;
  if (segment.immediate_follows) control |= kImmediateFollows;
  if (segment.unhurried) control |= kUnhurried;
  StoreBig16(to, static_cast<uint16_t>(segment.header_bytes() +
                                       segment.payload_bytes));
  StoreBig16(to + 2, control);
  StoreBig32(to + 4, segment.stag);
  if (segment.tagged) {
    StoreBig64(to + 8, segment.offset);
  } else {
    StoreBig32(to + 8, segment.queue);
    StoreBig32(to + 12, segment.sequence);
    StoreBig32(to + 16, static_cast<uint32_t>(segment.offset));
  }
  return kFpduLengthBytes + segment.header_bytes();
}

// Reserved bits are not looked at, as the RFCs demand.
const char* ParseSegment(const std::byte* bytes, size_t got,
                         DdpSegment& segment) {
  if (got < kFpduLengthBytes + 2) return kTooFewBytes;
  const uint32_t length = LoadBig16(bytes);
  const uint16_t control = LoadBig16(bytes + 2);
  if ((control & kDdpVersionMask) != kDdpVersion) {
    return "a DDP segment of another version than 1";
  }
  if ((control & kRdmapVersionMask) != kRdmapVersion) {
    return "an RDMAP message of another version than 1";
  }
  segment.tagged = (control & kTagged) != 0;
  const int place = kPlaces[control & kOpcodeMask];
  if (place == kNoMessage) return "an RDMAP opcode that nobody has defined";
  if (segment.tagged != (place == kTaggedMessage)) {
    return "an RDMAP opcode in a DDP segment of the other kind";
  }
  if (length < segment.header_bytes()) {
    return "an FPDU that is shorter than its header";
  }
  if (got < kFpduLengthBytes + segment.header_bytes()) return kTooFewBytes;
  segment.opcode = static_cast<RdmapOpcode>(control & kOpcodeMask);
  segment.last = (control & kLast) != 0;
  segment.immediate_follows = (control & kImmediateFollows) != 0;
  segment.unhurried = (control & kUnhurried) != 0;
  segment.stag = LoadBig32(bytes + 4);
  segment.payload_bytes = length - segment.header_bytes();
  if (segment.tagged) {
    segment.offset = LoadBig64(bytes + 8);
    return nullptr;
  }
  segment.queue = LoadBig32(bytes + 8);
  segment.sequence = LoadBig32(bytes + 12);
  segment.offset = LoadBig32(bytes + 16);
  if (segment.queue != static_cast<uint32_t>(place)) {
    return "an RDMAP message on the wrong untagged queue";
  }
  return nullptr;
}

uint32_t MpaCrc(const std::byte* bytes, size_t count, uint32_t before) {
  // The library only reads the bytes, although its parameter is not const. It
  // leaves out the inversions at both ends.
  return ~crc32_iscsi(
      const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes)),
      static_cast<int>(count), ~before);
}

void ReadRequestBody::Encode(std::byte* to) const {
  StoreBig32(to, sink_stag);
  StoreBig64(to + 4, sink_offset);
  StoreBig32(to + 12, length);
  StoreBig32(to + 16, source_stag);
  StoreBig64(to + 20, source_offset);
}

ReadRequestBody ReadRequestBody::Parse(const std::byte* bytes) {
  return {.sink_stag = LoadBig32(bytes),
          .sink_offset = LoadBig64(bytes + 4),
          .length = LoadBig32(bytes + 12),
          .source_stag = LoadBig32(bytes + 16),
          .source_offset = LoadBig64(bytes + 20)};
}

AtomicRequestBody AtomicRequestBody::Of(PacketKind kind,
                                        const AtomicOperands& operands) {
  AtomicRequestBody body;
  if (kind == PacketKind::kFetchAdd) {
    body.operation = kFetchAdd;
    body.add_or_swap = operands.compare_or_add;
    return body;
  }
  body.operation = kCompareSwap;
  body.add_or_swap = operands.swap;
  body.compare = operands.compare_or_add;
  body.add_or_swap_mask = body.compare_mask = kAllBits;
  return body;
}

bool AtomicRequestBody::ToPacket(PacketKind& kind,
                                 AtomicOperands& operands) const {
  // A carry out of the highest bit is lost anyhow.
  constexpr uint64_t kHighest = uint64_t{1} << 63;
  if (operation == kFetchAdd) {
    kind = PacketKind::kFetchAdd;
    operands = {.compare_or_add = add_or_swap, .swap = 0};
    return (add_or_swap_mask & ~kHighest) == 0;
  }
  kind = PacketKind::kCompareSwap;
  operands = {.compare_or_add = compare, .swap = add_or_swap};
  return operation == kCompareSwap && add_or_swap_mask == kAllBits &&
         compare_mask == kAllBits;
}

void AtomicRequestBody::Encode(std::byte* to) const {
  StoreBig32(to, operation);
  StoreBig32(to + 4, request);
  StoreBig32(to + 8, stag);
  StoreBig64(to + 12, offset);
  StoreBig64(to + 20, add_or_swap);
  StoreBig64(to + 28, add_or_swap_mask);
  StoreBig64(to + 36, compare);
  StoreBig64(to + 44, compare_mask);
}

AtomicRequestBody AtomicRequestBody::Parse(const std::byte* bytes) {
  return {.operation = LoadBig32(bytes) & 0xf,  // The rest is reserved.
          .request = LoadBig32(bytes + 4),
          .stag = LoadBig32(bytes + 8),
          .offset = LoadBig64(bytes + 12),
          .add_or_swap = LoadBig64(bytes + 20),
          .add_or_swap_mask = LoadBig64(bytes + 28),
          .compare = LoadBig64(bytes + 36),
          .compare_mask = LoadBig64(bytes + 44)};
}

void AtomicResponseBody::Encode(std::byte* to) const {
  StoreBig32(to, request);
  StoreBig64(to + 4, value);
}

AtomicResponseBody AtomicResponseBody::Parse(const std::byte* bytes) {
  return {.request = LoadBig32(bytes), .value = LoadBig64(bytes + 4)};
}

TerminateBody TerminateBody::Of(NakReason reason) {
  switch (reason) {
    case NakReason::kReceiverNotReady:
      return {.layer = 1, .type = 2, .code = 2};
    case NakReason::kRemoteAccess:
      return {.layer = 0, .type = 1, .code = 1};
    case NakReason::kRemoteOperation:
      return {.layer = 0, .type = 2, .code = 7};
    case NakReason::kInvalidRequest:
      break;
  }
  return {.layer = 0, .type = 2, .code = 0xff};
}

void TerminateBody::Encode(std::byte* to) const {
  to[0] = static_cast<std::byte>(layer << 4 | (type & 0xf));
  to[1] = static_cast<std::byte>(code);
  to[2] = to[3] = std::byte{0};
}

TerminateBody TerminateBody::Parse(const std::byte* bytes) {
  const auto first = static_cast<uint8_t>(bytes[0]);
  return {.layer = static_cast<uint8_t>(first >> 4),
          .type = static_cast<uint8_t>(first & 0xf),
          .code = static_cast<uint8_t>(bytes[1])};
}

const char* TerminateBody::text() const {
  switch (layer) {
    case 0:
      if (type == 0) return "RDMAP: a local catastrophe";
      if (type == 1) return "RDMAP: memory that may not be used";
      return "RDMAP: an operation that cannot be done";
    case 1:
      if (type == 1) return "DDP: memory that may not be used";
      if (type == 2 && code == 2) return "DDP: no receive request is posted";
      if (type == 2 && code == 5) {
        return "DDP: the receive request is too short";
      }
      return "DDP: a segment that cannot be taken";
    case 2:
      if (code == 2) return "MPA: a wrong CRC";
      return "MPA: a frame that cannot be taken";
    default:
      return "an unknown layer";
  }
}

}  // namespace verbena::soft
