// The first frame that each side of an iWARP connection says: MPA request and
// reply (RFC 5044 section 7, and RFC 6581 for revision 2).
//
//   key            16  "MPA ID Req Frame" or "MPA ID Rep Frame"
//   flags           1  M markers, C CRC, R reject, S enhanced
//   revision        1
//   length          2  bytes of private data, at most 512
//   private data:      if S is set: IRD and ORD, 2 bytes each; the user's data;
//                      a trailer, if the sender is this device
//
// Numbers are big endian. The trailer tells two of this device of each other.
// It holds the fields of CmMessage for which MPA has no place.
//
//   magic           8  "VERBENA1"
//   features        4
//   qp_num          4
//   own_queue_pair  4
//   reject_reason   2
//   retry_count     1
//   rnr_retry_count 1
//   version         1  kCmVersion
//   zero            1
//   user_bytes      2  bytes of user's data before the trailer

#ifndef VERBENA_TRANSPORT_SOFT_IWARP_MPA_H_
#define VERBENA_TRANSPORT_SOFT_IWARP_MPA_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/types/span.h"

namespace verbena::soft {

inline constexpr size_t kMpaHeaderBytes = 20;
inline constexpr size_t kMpaPrivateBytesMax = 512;
inline constexpr size_t kMpaFrameBytesMax =
    kMpaHeaderBytes + kMpaPrivateBytesMax;
inline constexpr size_t kMpaTrailerBytes = 28;
// The user's data that has room beside all else.
inline constexpr size_t kMpaUserBytesMax =
    kMpaPrivateBytesMax - 4 - kMpaTrailerBytes;
inline constexpr uint16_t kMpaDepthMax = (1 << 14) - 1;  // IRD and ORD.

enum class MpaKind { kRequest, kReply };

struct MpaTrailer {
  uint32_t features = 0;  // Bits of what the sender understands.
  uint32_t qp_num = 0;
  uint32_t own_queue_pair = 0;
  uint16_t reject_reason = 0;
  uint8_t retry_count = 0;
  uint8_t rnr_retry_count = 0;
  uint8_t version = 0;

  bool operator==(const MpaTrailer&) const = default;
};

struct MpaFrame {
  MpaKind kind = MpaKind::kRequest;
  bool crc = true;
  bool reject = false;   // Replies only.
  uint8_t revision = 2;  // 1 or 2.

  // Revision 2: depths that the sender wants to have (RFC 6581), and, for a
  // connection of peers, the first messages that it can send.
  bool enhanced = true;
  uint16_t inbound_reads = 0;   // IRD.
  uint16_t outbound_reads = 0;  // ORD.
  bool peer_to_peer = false;
  bool first_send = false;
  bool first_write = false;
  bool first_read = false;

  std::array<std::byte, kMpaPrivateBytesMax> user = {};
  uint16_t user_bytes = 0;
  std::optional<MpaTrailer> trailer;  // The sender is this device.
};

// Writes the frame to `to`, which has room for kMpaFrameBytesMax. Returns its
// length. REQUIRES: user_bytes <= kMpaUserBytesMax, depths <= kMpaDepthMax.
size_t EncodeMpa(const MpaFrame& frame, std::byte* to);

// Makes `reply` one that the sender of `request` understands: it has the
// revision of the request. If the request is for a connection of peers (RFC
// 6581), its sender begins with a message that says only that it is ready. The
// reply chooses that message among those offered: a Write of nothing, else a
// Read of nothing, else a Send, which takes a receive.
void FitToRequest(const MpaFrame& request, MpaFrame& reply);

enum class MpaParsed {
  kIncomplete,  // More bytes are needed: `needed` in all.
  kFrame,
  kRefused,  // A correct frame that asks for what this device does not do.
  kWrong,    // No correct peer says this.
};

struct MpaResult {
  MpaParsed parsed = MpaParsed::kIncomplete;
  // Bytes of the frame, as far as they are known: kMpaHeaderBytes first, and
  // then all. A reader that reads no more leaves the stream behind it alone.
  size_t needed = kMpaHeaderBytes;
  const char* error = "";  // For kRefused and kWrong, in words.
};

// Parses the beginning of a stream. `frame` is set if the result is kFrame or
// kRefused.
MpaResult ParseMpa(absl::Span<const std::byte> bytes, MpaKind kind,
                   MpaFrame& frame);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_IWARP_MPA_H_
