// The protocol of the software devices of two hosts over TCP.
//
// A connection carries one link. The side that makes the link connects to the
// device's port (TcpSwitch) on the other host and says in a preamble whom the
// link is for. From then on both sides send frames. A frame is the image of an
// event at the sender's end of the link: a packet was put into the ring,
// requests were executed, a queue pair became ready or left, or the connection
// manager sent a message. Requests count as executed when the queue pair at the
// far end says so, not when they were sent.
//
//   connecting side                         listening side
//   preamble                        ->      is handed to the process it is for
//   frames                         <->      frames
//
// Everything is in the byte order of x86, little endian. Bytes that a kind does
// not use are zero, or the connection ends.

#ifndef VERBENA_TRANSPORT_SOFT_REMOTE_TCP_PROTOCOL_H_
#define VERBENA_TRANSPORT_SOFT_REMOTE_TCP_PROTOCOL_H_

#include <cstddef>
#include <cstdint>

#include "transport/soft/base/limits.h"
#include "transport/soft/link/cm_message.h"
#include "transport/soft/link/link.h"
#include "transport/soft/link/packet.h"

namespace verbena::soft {

// Port 4791 is that of RoCE v2, which uses it with UDP.
inline constexpr uint16_t kTcpPortDefault = 4791;

inline constexpr uint64_t kTcpMagic = 0x3130666f73627276;  // "vrbsof01"

enum class TcpPurpose : uint32_t {
  kManual = 1,             // For queue pair `to`.
  kConnectionManager = 2,  // For the listener of `destination_port`.
};

struct TcpPreamble {
  uint64_t magic = kTcpMagic;
  TcpPurpose purpose = TcpPurpose::kManual;
  uint32_t from = 0;  // kManual: the numbers of the two queue pairs.
  uint32_t to = 0;
  uint16_t source_port = 0;  // kConnectionManager: the ports of the two sides.
  uint16_t destination_port = 0;
  uint64_t zero = 0;

  bool IsLegal() const;
};
static_assert(sizeof(TcpPreamble) == 32);

enum class TcpFrameKind : uint32_t {
  kPacket = 1,     // The payload of the packet follows.
  kExecuted = 2,   // Only the fields that every frame has.
  kState = 3,      // `mark` is LinkNews::word().
  kCmMessage = 4,  // A CmMessage follows. Not on a link made manually.
};

// The state of a side, which it tells the other besides its packets.
struct LinkNews {
  LinkState state = kLinkNotReady;
  uint32_t path = 0;  // PathMigration::word().

  bool operator==(const LinkNews&) const = default;
  uint64_t word() const { return uint64_t{path} << 32 | state; }
};

struct TcpFrame {
  TcpFrameKind kind = TcpFrameKind::kExecuted;
  uint32_t position = 0;  // Frames before this one: a check of the framing.
  uint32_t executed = 0;  // Requests of the receiver that have been executed.
  uint32_t length = 0;    // Bytes that follow.
  // The words of a packet, as in PacketHeader: kind, flags and number, but not
  // the payload's length; address; key and value.
  uint64_t mark = 0;
  uint64_t address = 0;
  uint64_t key_and_value = 0;

  // Whether kind and length go together.
  bool IsLegal() const;
};
static_assert(sizeof(TcpFrame) == 40);
// If the header grows, frames must carry more.
static_assert(sizeof(PacketHeader) == 40);

inline constexpr size_t kTcpFrameBytesMax = sizeof(TcpFrame) + kSegmentBytes;
static_assert(sizeof(CmMessage) <= kSegmentBytes);

inline bool TcpPreamble::IsLegal() const {
  if (magic != kTcpMagic || zero != 0) return false;
  switch (purpose) {
    case TcpPurpose::kManual:
      return from <= kQueuePairNumberMax && to <= kQueuePairNumberMax &&
             source_port == 0 && destination_port == 0;
    case TcpPurpose::kConnectionManager:
      return from == 0 && to == 0 && source_port != 0 && destination_port != 0;
  }
  return false;
}

inline bool TcpFrame::IsLegal() const {
  const bool no_words = address == 0 && key_and_value == 0;
  switch (kind) {
    case TcpFrameKind::kPacket:
      return length <= kSegmentBytes;
    case TcpFrameKind::kExecuted:
      return length == 0 && mark == 0 && no_words;
    case TcpFrameKind::kState:
      return length == 0 && no_words;
    case TcpFrameKind::kCmMessage:
      return length == sizeof(CmMessage) && mark == 0 && no_words;
  }
  return false;
}

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_REMOTE_TCP_PROTOCOL_H_
