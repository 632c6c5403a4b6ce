// The messages that set a connection up: the private data of RDMA CM, and the
// options in HELLO and WELCOME.
//
// Private data, little-endian:
//
//   all:      0  magic, 32 bits: "VRBN"
//             4  version, 8 bits: in a reply the one that is spoken from then
//                on, else the lowest that the sender speaks
//             5  kind, 8 bits: 1 connect request, 2 connect reply, 3 reject
//             6  length, 16 bits: of all this. Receivers may see padding behind
//                it (InfiniBand sends a fixed number of bytes), and ignore it.
//   request   8  buffer_bytes, 32 bits
//   and reply 12 credits, 16 bits
//             14 max_open_calls, 16 bits
//             16 max_receive_message_bytes, 32 bits
//             20 max_metadata_bytes, 32 bits: ends the reply
//   request   24 arena: address, 64 bits
//             32 arena: bytes, 64 bits
//             40 arena: rkey, 32 bits
//             44 zero, 32 bits: ends the request
//   reject    8  reason, 16 bits
//             10 text, to the end
//
// Behind that length, where a receiver that does not know them sees padding,
// stand the versions that the sender speaks:
//
//             0  mark, 16 bits: "vs"
//             2  lowest, 8 bits
//             3  highest, 8 bits
//             4  features, 32 bits: of those that both sides say, both may
//                make use. There are none yet.
//
// All of this is the same in every version from 8 on. The first release that
// spoke version 8 did not say the versions; it speaks only that one. Both sides
// speak the highest version that they have in common.
//
// Options, little-endian, one after the other, any number of them: type,
// 16 bits; length of the value, 16 bits; value.

#ifndef VERBENA_TRANSPORT_WIRE_HELLO_H_
#define VERBENA_TRANSPORT_WIRE_HELLO_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "transport/base/limits.h"
#include "transport/wire/frame.h"

namespace verbena::transport {

inline constexpr uint32_t kHelloMagic = 0x4e425256;  // "VRBN"

// The versions that a side speaks.
struct ProtocolVersions {
  uint8_t lowest = 8;
  uint8_t highest = 8;
  uint32_t features = 0;

  bool operator==(const ProtocolVersions&) const = default;
};
// Returns the highest version in common. UNAVAILABLE, naming all, if there is
// none: during a rolling upgrade a peer that speaks one may follow.
absl::StatusOr<uint8_t> CommonVersion(const ProtocolVersions& ours,
                                      const ProtocolVersions& peers);

// Bytes of private data that RDMA CM carries on InfiniBand.
inline constexpr size_t kConnectPrivateBytesMax = 56;
inline constexpr size_t kAcceptPrivateBytesMax = 196;
inline constexpr size_t kRejectPrivateBytesMax = 148;

// The least length of a slot: it must hold the parts of a RESPONSE that have no
// other place.
inline constexpr uint32_t kMinBufferBytes =
    sizeof(ResponseHeader) + kMaxStatusMessageBytes + kFrameMetadataBytes;
static_assert(kMinBufferBytes >= sizeof(RequestHeader) + kFrameMetadataBytes);
static_assert(kMinBufferBytes <= kBufferBytes);

inline constexpr uint16_t kMinCredits = 1;

// Limits of what a side is able to receive.
struct PeerLimits {
  uint32_t buffer_bytes = 0;  // Its largest frame, at least kMinBufferBytes.
  // Frames that it takes at first, at least kMinCredits.
  uint16_t credits = 0;
  uint16_t max_open_calls = 0;             // On this connection, at least 1.
  uint32_t max_receive_message_bytes = 0;  // From 1 to kMaxMessageBytes.
  uint32_t max_metadata_bytes = 0;         // At most kMaxMetadataBytes.
};

// A range of the client's memory that the server may READ and WRITE.
struct ArenaDescriptor {
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint32_t rkey = 0;
};

// INVALID_ARGUMENT, with what was seen, if the range is empty or wraps around
// the end of the address space.
absl::Status CheckArena(const ArenaDescriptor& arena);

struct ConnectRequest {
  PeerLimits limits;
  ArenaDescriptor arena;  // Arena 0.
  // Nothing if the client did not say them: see above.
  std::optional<ProtocolVersions> versions = ProtocolVersions();
};
// Returns the version to answer a request with. REQUIRES: it was decoded.
uint8_t VersionFor(const ConnectRequest& request);

struct ConnectReply {
  PeerLimits limits;
  uint8_t version = ProtocolVersions().highest;  // See VersionFor().
  std::optional<ProtocolVersions> versions = ProtocolVersions();
};

enum class RejectReason : uint16_t {
  kBadHello = 1,    // Not Verbena, or malformed.
  kBadVersion = 2,  // The two sides have no version in common.
  kFull = 3,        // No room for one more connection.
  kShuttingDown = 4,
};

struct Reject {
  RejectReason reason = RejectReason::kBadHello;
  std::string text;  // For people; cut to fit.
};

std::string EncodeConnectRequest(const ConnectRequest& request);
std::string EncodeConnectReply(const ConnectReply& reply);
std::string EncodeReject(const Reject& reject);

// Decoders check everything: magic, version, kind, length, ranges (an arena
// that wraps around, limits outside of what PeerLimits says). Errors say what
// was seen: INVALID_ARGUMENT for what is not Verbena or malformed, UNAVAILABLE
// if there is no version in common (of a rejection, too: the versions are then
// the reason, whatever the rest says). They may get any bytes, padding behind
// included.
absl::StatusOr<ConnectRequest> DecodeConnectRequest(
    absl::Span<const uint8_t> private_data);
absl::StatusOr<ConnectReply> DecodeConnectReply(
    absl::Span<const uint8_t> private_data);
absl::StatusOr<Reject> DecodeReject(absl::Span<const uint8_t> private_data);

// Returns the status with which a rejected client's calls end: UNAVAILABLE
// (retry), and FAILED_PRECONDITION for kBadHello.
absl::Status RejectStatus(const Reject& reject);

// Options: type, length and value, in any order. A receiver skips types that it
// does not know, unless they have kCriticalOption set.
inline constexpr uint16_t kCriticalOption = 0x8000;
inline constexpr uint16_t kOptionUserAgent = 1;  // Text.
// What the credentials of the sender say: see transport/base/credentials.h.
inline constexpr uint16_t kOptionCredentials = 2;
inline constexpr uint16_t kOptionCredentialsKind = 3;  // In a HELLO: a word.
// Frames are to end with checksums (see frame.h): of which kind, a word. In a
// HELLO the client asks for it; in a WELCOME the server does, or confirms it.
// Who cannot must refuse.
inline constexpr uint16_t kOptionChecksum = kCriticalOption | 4;
inline constexpr char kChecksumKind[] = "crc32c";
// In a WELCOME, without a value: the server wants to be told the name of the
// method of each call. The layer above puts it into the metadata.
inline constexpr uint16_t kOptionMethodNames = 5;

// Without a value. In a HELLO: the client understands trains (see frame.h). In
// a WELCOME, to such a client: so does the server, and both may send them.
inline constexpr uint16_t kOptionTrains = 6;

// In a HELLO, without a value: the client may connect to other addresses of the
// server, too. In a WELCOME, to such a client: see server_addresses.h.
inline constexpr uint16_t kOptionAddresses = 7;

struct HelloOption {
  uint16_t type = 0;
  std::string value;
};

// REQUIRES: values of at most 65535 bytes.
std::string EncodeOptions(const std::vector<HelloOption>& options);
// In the order of the body, without those that are unknown. INVALID_ARGUMENT
// if one is truncated, or one of the above comes twice; FAILED_PRECONDITION if
// an unknown one is critical.
absl::StatusOr<std::vector<HelloOption>> DecodeOptions(
    absl::Span<const uint8_t> body);
// The value of the option of that type; null if it is not there.
const std::string* FindOption(const std::vector<HelloOption>& options,
                              uint16_t type);

// Whether the peer asks for checksums, or confirms them. FAILED_PRECONDITION if
// it wants another kind than kChecksumKind.
absl::StatusOr<bool> AsksForChecksum(const std::vector<HelloOption>& options);

// Returns the bytes that credentials are bound to: all that the two sides have
// said of themselves up to and with the HELLO. Both sides have the same bytes:
// the versions are in them only if both have said theirs.
std::string HellosText(ConnectRequest request, ConnectReply reply,
                       absl::string_view hello_body);

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_WIRE_HELLO_H_
