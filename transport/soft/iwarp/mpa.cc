#include "transport/soft/iwarp/mpa.h"

#include <algorithm>
#include <cstring>

#include "transport/base/check.h"
#include "transport/soft/iwarp/ddp.h"

namespace verbena::soft {
namespace {

constexpr size_t kKeyBytes = 16;
constexpr char kRequestKey[] = "MPA ID Req Frame";
constexpr char kReplyKey[] = "MPA ID Rep Frame";
static_assert(sizeof(kRequestKey) == kKeyBytes + 1);
static_assert(sizeof(kReplyKey) == kKeyBytes + 1);

constexpr uint8_t kMarkers = 0x80;
constexpr uint8_t kCrc = 0x40;
constexpr uint8_t kReject = 0x20;
constexpr uint8_t kEnhanced = 0x10;

// The two highest bits of the words of IRD and ORD.
constexpr uint16_t kHigh = 0x8000;
constexpr uint16_t kLow = 0x4000;

constexpr char kMagic[] = "VERBENA1";
constexpr size_t kMagicBytes = sizeof(kMagic) - 1;

const char* Key(MpaKind kind) {
  return kind == MpaKind::kRequest ? kRequestKey : kReplyKey;
}

uint16_t DepthWord(uint16_t depth, bool high, bool low) {
  return static_cast<uint16_t>(depth | (high ? kHigh : 0) | (low ? kLow : 0));
}

void EncodeTrailer(const MpaTrailer& trailer, uint16_t user_bytes,
                   std::byte* to) {
  std::memcpy(to, kMagic, kMagicBytes);
  StoreBig32(to + 8, trailer.features);
  StoreBig32(to + 12, trailer.qp_num);
  StoreBig32(to + 16, trailer.own_queue_pair);
  StoreBig16(to + 20, trailer.reject_reason);
  to[22] = std::byte{trailer.retry_count};
  to[23] = std::byte{trailer.rnr_retry_count};
  to[24] = std::byte{trailer.version};
  to[25] = std::byte{0};
  StoreBig16(to + 26, user_bytes);
}

// Whether `data` ends in a trailer.
bool HasTrailer(absl::Span<const std::byte> data) {
  return data.size() >= kMpaTrailerBytes &&
         std::memcmp(data.end() - kMpaTrailerBytes, kMagic, kMagicBytes) == 0;
}

MpaTrailer ParseTrailer(const std::byte* from) {
  return {.features = LoadBig32(from + 8),
          .qp_num = LoadBig32(from + 12),
          .own_queue_pair = LoadBig32(from + 16),
          .reject_reason = LoadBig16(from + 20),
          .retry_count = static_cast<uint8_t>(from[22]),
          .rnr_retry_count = static_cast<uint8_t>(from[23]),
          .version = static_cast<uint8_t>(from[24])};
}

// Takes private data apart. Returns null, or what is wrong with it.
const char* ParsePrivateData(absl::Span<const std::byte> data,
                             MpaFrame& frame) {
  if (frame.enhanced) {
    if (data.size() < 4) return "an enhanced MPA frame without IRD and ORD";
    const uint16_t inbound = LoadBig16(data.data());
    const uint16_t outbound = LoadBig16(data.data() + 2);
    frame.inbound_reads = inbound & kMpaDepthMax;
    frame.outbound_reads = outbound & kMpaDepthMax;
    frame.peer_to_peer = (inbound & kHigh) != 0;
    frame.first_send = (inbound & kLow) != 0;
    frame.first_write = (outbound & kHigh) != 0;
    frame.first_read = (outbound & kLow) != 0;
    data.remove_prefix(4);
  }
  if (HasTrailer(data)) {
    const std::byte* const trailer = data.end() - kMpaTrailerBytes;
    data.remove_suffix(kMpaTrailerBytes);
    if (LoadBig16(trailer + 26) != data.size() || trailer[25] != std::byte{0}) {
      return "an MPA frame of this device with private data of a wrong length";
    }
    frame.trailer = ParseTrailer(trailer);
  }
  std::copy(data.begin(), data.end(), frame.user.begin());
  frame.user_bytes = static_cast<uint16_t>(data.size());
  return nullptr;
}

}  // namespace

size_t EncodeMpa(const MpaFrame& frame, std::byte* to) {
  CHECK_LE(frame.user_bytes, kMpaUserBytesMax);
  std::memcpy(to, Key(frame.kind), kKeyBytes);
  uint8_t flags = 0;
  if (frame.crc) flags |= kCrc;
  if (frame.reject) flags |= kReject;
  const bool enhanced = frame.enhanced && frame.revision >= 2;
  if (enhanced) flags |= kEnhanced;
  to[16] = std::byte{flags};
  to[17] = std::byte{frame.revision};
  size_t length = kMpaHeaderBytes;
  if (enhanced) {
    StoreBig16(to + length, DepthWord(frame.inbound_reads, frame.peer_to_peer,
                                      frame.first_send));
    StoreBig16(to + length + 2, DepthWord(frame.outbound_reads,
                                          frame.first_write, frame.first_read));
    length += 4;
  }
  std::memcpy(to + length, frame.user.data(), frame.user_bytes);
  length += frame.user_bytes;
  if (frame.trailer.has_value()) {
    EncodeTrailer(*frame.trailer, frame.user_bytes, to + length);
    length += kMpaTrailerBytes;
  }
  StoreBig16(to + 18, static_cast<uint16_t>(length - kMpaHeaderBytes));
  return length;
}

void FitToRequest(const MpaFrame& request, MpaFrame& reply) {
  reply.revision = request.revision;
  reply.enhanced = request.enhanced;
  reply.peer_to_peer = request.peer_to_peer;
  if (!request.peer_to_peer) return;
  reply.first_write = request.first_write;
  reply.first_read = !request.first_write && request.first_read;
  reply.first_send =
      !request.first_write && !request.first_read && request.first_send;
}

// Looks at the key as soon as a byte of it is there, so that a peer that speaks
// another protocol is found without waiting for more of it.
MpaResult ParseMpa(absl::Span<const std::byte> bytes, MpaKind kind,
                   MpaFrame& frame) {
  MpaResult result;
  const auto wrong = [&result](const char* error) {
    result.parsed = MpaParsed::kWrong;
    result.error = error;
    return result;
  };
  if (!bytes.empty() && std::memcmp(bytes.data(), Key(kind),
                                    std::min(bytes.size(), kKeyBytes)) != 0) {
    return wrong(
        "the first bytes are no MPA frame: the peer does not speak "
        "iWARP");
  }
  if (bytes.size() < kMpaHeaderBytes) return result;
  const auto flags = static_cast<uint8_t>(bytes[16]);
  const auto revision = static_cast<uint8_t>(bytes[17]);
  const size_t length = LoadBig16(bytes.data() + 18);
  if (length > kMpaPrivateBytesMax) {
    return wrong("an MPA frame with more than 512 bytes of private data");
  }
  if (revision == 0) return wrong("an MPA frame of revision 0");
  result.needed = kMpaHeaderBytes + length;
  if (bytes.size() < result.needed) return result;
  frame = MpaFrame();
  frame.kind = kind;
  frame.revision = revision;
  frame.crc = (flags & kCrc) != 0;
  frame.reject = kind == MpaKind::kReply && (flags & kReject) != 0;
  frame.enhanced = revision == 2 && (flags & kEnhanced) != 0;
  if (revision > 2) {
    result.parsed = MpaParsed::kRefused;
    result.error = "the peer speaks a revision of MPA that is newer than 2";
    return result;
  }
  if (const char* const error =
          ParsePrivateData(bytes.subspan(kMpaHeaderBytes, length), frame);
      error != nullptr) {
    return wrong(error);
  }
  result.parsed = MpaParsed::kFrame;
  if ((flags & kMarkers) != 0) {
    result.parsed = MpaParsed::kRefused;
    result.error =
        "the peer demands MPA markers, which this device never "
        "sends";
  }
  return result;
}

}  // namespace verbena::soft
