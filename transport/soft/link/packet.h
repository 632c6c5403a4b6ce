// The protocol between two soft devices: the packets in a link's rings.
//
// A message is cut into segments of at most kSegmentBytes, one packet each. The
// link neither loses nor reorders, so requests are numbered by message, not by
// packet, and a message is repeated for one reason only: the receiver had
// no receive request posted for it.
//
//   requester                              responder
//   SEND / WRITE, first ... last    ->     executes; counts it as executed
//   READ                            ->     notes it; answers when there is room
//                                   <-     READ_RESPONSE, first ... last
//   COMPARE_SWAP / FETCH_ADD        ->     executes; counts; notes the answer
//                                   <-     READ_RESPONSE, the 8 bytes before
//   COUNT                           ->     counts: a request that concerned the
//                                          requester alone
//                                   <-     NAK: this request was not executed
//
// Acknowledgements are no packets. Every packet carries the number of requests
// executed and the ring space consumed by its sender; when it has no packet to
// send, the same two numbers go into SideWords::progress.
//
// A responder without a receive request drops that message and everything after
// it, and sends a NAK with the reason kReceiverNotReady; the requester waits
// for as long as the NAK says and starts again from that message. After any
// other NAK the responder's queue pair is in error.

#ifndef VERBENA_TRANSPORT_SOFT_LINK_PACKET_H_
#define VERBENA_TRANSPORT_SOFT_LINK_PACKET_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace verbena::soft {

// The most that one packet carries: enough that its header costs nothing, and
// little enough that both sides copy at the same time.
inline constexpr uint32_t kSegmentBytes = 16 * 1024;

// A longer message begins with shorter packets, so that the peer begins to copy
// sooner. A receiver accepts any division.
inline constexpr uint32_t kFirstSegmentBytes = 4 * 1024;
inline constexpr uint32_t SegmentBytes(uint32_t offset, uint32_t left) {
  const uint32_t most =
      offset < kSegmentBytes ? kFirstSegmentBytes : kSegmentBytes;
  return left < most ? left : most;
}

enum class PacketKind : uint8_t {
  kNone = 0,  // No packet has this kind.
  kSend = 1,
  kWrite = 2,
  kRead = 3,
  kReadResponse = 4,
  kNak = 5,
  kCompareSwap = 6,
  kFetchAdd = 7,
  kCount = 8,
};

// The payload of an atomic, in the byte order of the host.
struct AtomicOperands {
  uint64_t compare_or_add;
  uint64_t swap;
};
static_assert(sizeof(AtomicOperands) == 16);
inline constexpr uint32_t kAtomicBytes = 8;  // The bytes that it works on.

// The length that the first packet of a WRITE announces if nobody has told its
// sender: the WRITE comes from another host, and the wire does not say it. Each
// packet is checked by itself then.
inline constexpr uint32_t kUnknownLength = 0xffffffff;

// Flags of a packet.
inline constexpr uint8_t kPacketFirst = 1 << 0;
inline constexpr uint8_t kPacketLast = 1 << 1;
inline constexpr uint8_t kPacketSolicited = 1 << 2;
inline constexpr uint8_t kPacketImmediate = 1 << 3;  // Only with kPacketLast.
// Only with kPacketLast of kSend: the value is a key to be invalidated.
inline constexpr uint8_t kPacketInvalidate = 1 << 4;
// The sender does not wait for what the receiver does with the packet: it is a
// SEND that is not signalled, or an answer. A receiver whose program sleeps
// need not do anything about it before that program wakes up; see
// kBellOfWaiter.
inline constexpr uint8_t kPacketUnhurried = 1 << 5;

// Why a request was not executed; Packet::value of a NAK, low byte.
enum class NakReason : uint8_t {
  kReceiverNotReady = 1,  // Next byte: the responder's min_rnr_timer.
  kInvalidRequest = 2,
  kRemoteAccess = 3,
  kRemoteOperation = 4,
};

// The header of a packet in the ring, at a multiple of 64 bytes. Each word is
// atomic because the other process may write to it while we read.
//
// The reader knows a packet by its stamp alone: the link's secret number plus
// the position of the packet, in units of 64 bytes since the beginning. What
// was in the ring before, somebody's payload included, equals it by chance
// once in 2^64. So no place in the ring has to be cleared for a packet to come:
// the reader polls a line that is in its own cache until the packet is there.
// Only what would overwrite a part of an old stamp clears the rest of it.
struct PacketHeader {
  std::atomic<uint64_t> stamp;  // Written last.
  // Bits 7..0 kind, 15..8 flags, 31..16 payload bytes, 63..32 request number.
  std::atomic<uint64_t> kind_and_number;
  // The sender's progress, laid out as SideWords::progress is.
  std::atomic<uint64_t> progress;
  // First packet of kWrite, kRead and atomics: the address in the responder's
  // memory.
  std::atomic<uint64_t> address;
  // High half: rkey (where there is an address). Low half: message length
  // (first packet of kWrite, or kUnknownLength; kRead), immediate data
  // (kPacketImmediate; but not the first packet of kWrite), key
  // (kPacketInvalidate), reason (kNak). No packet needs two of these: immediate
  // data of a WRITE travels in a last packet of its own, without payload.
  std::atomic<uint64_t> key_and_value;
};
static_assert(sizeof(PacketHeader) == 40);
static_assert(kSegmentBytes <= 0xffff);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// A packet, read from the ring or to be written into it.
struct Packet {
  PacketKind kind = PacketKind::kNone;
  uint8_t flags = 0;
  uint32_t payload_bytes = 0;
  uint32_t number = 0;
  uint32_t rkey = 0;
  uint32_t value = 0;
  uint64_t address = 0;
  const std::byte* payload = nullptr;  // In the ring: the peer may change it.
  uint32_t executed = 0;               // Received packets only.

  bool first() const { return (flags & kPacketFirst) != 0; }
  bool last() const { return (flags & kPacketLast) != 0; }
};

// Small payloads start in the header's own line. Larger ones start on the next:
// a copy from an odd address is slow from about 2 KiB on.
inline constexpr uint32_t kPackedPayloadBytesMax = 512 - sizeof(PacketHeader);
inline constexpr uint32_t PayloadOffset(uint32_t payload_bytes) {
  return payload_bytes <= kPackedPayloadBytesMax ? sizeof(PacketHeader) : 64;
}

// Ring space of a packet.
inline constexpr uint32_t PacketBytes(uint32_t payload_bytes) {
  return (PayloadOffset(payload_bytes) + payload_bytes + 63) & ~63u;
}
inline constexpr uint32_t PacketUnits(uint32_t payload_bytes) {
  return PacketBytes(payload_bytes) / 64;
}

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_LINK_PACKET_H_
