#include "transport/wire/hello.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "transport/base/check.h"
#include "transport/base/status_macros.h"

namespace verbena::transport {
namespace {

// Kinds of private data: the three messages of the connection manager that
// carry them.
enum class PrivateKind : uint8_t { kRequest = 1, kReply = 2, kReject = 3 };

// The layout in hello.h. The structs have no padding of their own, so that
// they are copied as they stand.
struct PrivateHeader {
  uint32_t magic;
  uint8_t version;
  PrivateKind kind;
  uint16_t bytes;
};
static_assert(sizeof(PrivateHeader) == 8);

// Behind PrivateHeader::bytes.
struct PrivateVersions {
  uint16_t mark;
  uint8_t lowest;
  uint8_t highest;
  uint32_t features;
};
static_assert(sizeof(PrivateVersions) == 8);
constexpr uint16_t kVersionsMark = 0x7376;  // "vs"

// Ends the reply. A request has a PrivateArena behind it.
struct PrivateLimits {
  uint32_t buffer_bytes;
  uint16_t credits;
  uint16_t max_open_calls;
  uint32_t max_receive_message_bytes;
  uint32_t max_metadata_bytes;
};
static_assert(sizeof(PrivateLimits) == 16);

// Ends a request: arena 0 of the client.
struct PrivateArena {
  uint64_t address;
  uint64_t bytes;
  uint32_t rkey;
  uint32_t zero;
};
static_assert(sizeof(PrivateArena) == 24);

constexpr size_t kReplyBytes = sizeof(PrivateHeader) + sizeof(PrivateLimits);
constexpr size_t kRequestBytes = kReplyBytes + sizeof(PrivateArena);
// The reason stands between header and text.
constexpr size_t kRejectTextOffset = sizeof(PrivateHeader) + sizeof(uint16_t);
constexpr size_t kRejectTextBytesMax =
    kRejectPrivateBytesMax - kRejectTextOffset - sizeof(PrivateVersions);
static_assert(kRequestBytes + sizeof(PrivateVersions) <=
              kConnectPrivateBytesMax);
static_assert(kReplyBytes + sizeof(PrivateVersions) <= kAcceptPrivateBytesMax);

template <typename T>
void Append(const T& value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// REQUIRES: sizeof(T) bytes at `offset`.
template <typename T>
T Load(absl::Span<const uint8_t> bytes, size_t offset) {
  CHECK_LE(offset + sizeof(T), bytes.size());
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

absl::string_view AsText(absl::Span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void AppendHeader(PrivateKind kind, uint8_t version, size_t bytes,
                  std::string* out) {
  Append(PrivateHeader{.magic = kHelloMagic,
                       .version = version,
                       .kind = kind,
                       .bytes = static_cast<uint16_t>(bytes)},
         out);
}

void AppendVersions(const std::optional<ProtocolVersions>& versions,
                    std::string* out) {
  if (!versions.has_value()) return;
  Append(PrivateVersions{.mark = kVersionsMark,
                         .lowest = versions->lowest,
                         .highest = versions->highest,
                         .features = versions->features},
         out);
}

// Returns nothing if the sender did not say its versions. The padding of
// InfiniBand has no mark.
std::optional<ProtocolVersions> FindVersions(
    absl::Span<const uint8_t> private_data) {
  const size_t behind = Load<PrivateHeader>(private_data, 0).bytes;
  if (behind < sizeof(PrivateHeader) ||
      private_data.size() < behind + sizeof(PrivateVersions)) {
    return std::nullopt;
  }
  const auto said = Load<PrivateVersions>(private_data, behind);
  if (said.mark != kVersionsMark) return std::nullopt;
  return ProtocolVersions{.lowest = said.lowest,
                          .highest = said.highest,
                          .features = said.features};
}

std::string VersionsText(const ProtocolVersions& versions) {
  return versions.lowest == versions.highest
             ? absl::StrCat("version ", versions.lowest)
             : absl::StrCat("versions ", versions.lowest, " to ",
                            versions.highest);
}

// Wants a version in common. A reply must be of one; of other private data the
// header says the lowest.
absl::Status CheckVersions(const PrivateHeader& header,
                           const std::optional<ProtocolVersions>& said) {
  const bool chosen = header.kind == PrivateKind::kReply || !said.has_value();
  RETURN_IF_ERROR(
      CommonVersion(
          ProtocolVersions(),
          chosen ? ProtocolVersions{header.version, header.version} : *said)
          .status());
  if (!said.has_value() ||
      (said->lowest <= header.version && header.version <= said->highest &&
       (chosen || header.version == said->lowest))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("private data of version ", header.version,
                   " from a peer that speaks ", VersionsText(*said)));
}

void AppendLimits(const PeerLimits& limits, std::string* out) {
  Append(PrivateLimits{.buffer_bytes = limits.buffer_bytes,
                       .credits = limits.credits,
                       .max_open_calls = limits.max_open_calls,
                       .max_receive_message_bytes =
                           limits.max_receive_message_bytes,
                       .max_metadata_bytes = limits.max_metadata_bytes},
         out);
}

// Checks the header, and returns the private data without what stands behind
// their length.
absl::StatusOr<absl::Span<const uint8_t>> Unpad(
    absl::Span<const uint8_t> private_data, PrivateKind kind) {
  if (private_data.size() < sizeof(PrivateHeader)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the peer sent ", private_data.size(),
                     " bytes of private data, too few for Verbena"));
  }
  const auto header = Load<PrivateHeader>(private_data, 0);
  // Magic and versions first: without one in common, the rest may mean
  // anything.
  if (header.magic != kHelloMagic) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the peer does not speak Verbena: its private data begin with 0x",
        absl::Hex(header.magic, absl::kZeroPad8), ", not 0x",
        absl::Hex(kHelloMagic, absl::kZeroPad8)));
  }
  RETURN_IF_ERROR(CheckVersions(header, FindVersions(private_data)));
  if (header.kind != kind) {
    return absl::InvalidArgumentError(
        absl::StrCat("private data of kind ", static_cast<int>(header.kind),
                     " instead of kind ", static_cast<int>(kind)));
  }
  if (header.bytes < sizeof(PrivateHeader) ||
      header.bytes > private_data.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("private data claim a length of ", header.bytes,
                     " bytes, but ", private_data.size(), " came"));
  }
  // InfiniBand pads private data to a fixed length.
  return private_data.first(header.bytes);
}

// Wants the exact length: within one version the layout of a kind is fixed.
absl::Status CheckLength(absl::Span<const uint8_t> data, size_t wanted) {
  if (data.size() == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "private data of ", data.size(), " bytes instead of ", wanted));
}

absl::Status CheckRange(const char* name, uint64_t value, uint64_t least,
                        uint64_t most) {
  if (least <= value && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the peer's ", name, " is ",
                                                 value, ": must be from ",
                                                 least, " to ", most));
}

// Accepts limits beyond this side's own: they only say what the peer would
// take.
absl::StatusOr<PeerLimits> DecodeLimits(absl::Span<const uint8_t> data) {
  const auto limits = Load<PrivateLimits>(data, sizeof(PrivateHeader));
  RETURN_IF_ERROR(CheckRange("buffer_bytes", limits.buffer_bytes,
                             kMinBufferBytes, UINT32_MAX));
  RETURN_IF_ERROR(
      CheckRange("credits", limits.credits, kMinCredits, UINT16_MAX));
  RETURN_IF_ERROR(
      CheckRange("max_open_calls", limits.max_open_calls, 1, UINT16_MAX));
  RETURN_IF_ERROR(CheckRange("max_receive_message_bytes",
                             limits.max_receive_message_bytes, 1,
                             kMaxMessageBytes));
  RETURN_IF_ERROR(CheckRange("max_metadata_bytes", limits.max_metadata_bytes, 0,
                             kMaxMetadataBytes));
  return PeerLimits{
      .buffer_bytes = limits.buffer_bytes,
      .credits = limits.credits,
      .max_open_calls = limits.max_open_calls,
      .max_receive_message_bytes = limits.max_receive_message_bytes,
      .max_metadata_bytes = limits.max_metadata_bytes};
}

// At most `bytes_max` bytes of `text`, not cut inside of a UTF-8 character.
absl::string_view CutText(absl::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  // Bytes 10xxxxxx go on with a character; the cut comes before its first byte.
  size_t end = bytes_max;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

bool IsKnownOption(uint16_t type) {
  return (kOptionUserAgent <= type && type <= kOptionCredentialsKind) ||
         type == kOptionChecksum || type == kOptionMethodNames ||
         type == kOptionTrains || type == kOptionAddresses;
}

}  // namespace

absl::StatusOr<uint8_t> CommonVersion(const ProtocolVersions& ours,
                                      const ProtocolVersions& peers) {
  const uint8_t highest = std::min(ours.highest, peers.highest);
  if (highest >= std::max(ours.lowest, peers.lowest)) return highest;
  return absl::UnavailableError(
      absl::StrCat("the peer speaks ", VersionsText(peers),
                   " of the Verbena protocol, this side only ",
                   VersionsText(ours), ": upgrade the older side, which is ",
                   peers.highest < ours.lowest ? "the peer" : "this one"));
}

uint8_t VersionFor(const ConnectRequest& request) {
  if (!request.versions.has_value()) return ProtocolVersions().lowest;
  const absl::StatusOr<uint8_t> common =
      CommonVersion(ProtocolVersions(), *request.versions);
  CHECK(common.ok()) << common.status().message();
  return *common;
}

absl::Status CheckArena(const ArenaDescriptor& arena) {
  if (arena.bytes > 0 && arena.address <= UINT64_MAX - arena.bytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the peer's arena of ", arena.bytes, " bytes at 0x",
                   absl::Hex(arena.address),
                   arena.bytes == 0 ? " is empty" : " wraps around"));
}

std::string EncodeConnectRequest(const ConnectRequest& request) {
  std::string data;
  AppendHeader(PrivateKind::kRequest,
               request.versions.value_or(ProtocolVersions()).lowest,
               kRequestBytes, &data);
  AppendLimits(request.limits, &data);
  Append(PrivateArena{.address = request.arena.address,
                      .bytes = request.arena.bytes,
                      .rkey = request.arena.rkey,
                      .zero = 0},
         &data);
  AppendVersions(request.versions, &data);
  return data;
}

std::string EncodeConnectReply(const ConnectReply& reply) {
  std::string data;
  AppendHeader(PrivateKind::kReply, reply.version, kReplyBytes, &data);
  AppendLimits(reply.limits, &data);
  AppendVersions(reply.versions, &data);
  return data;
}

// Cuts the text, because InfiniBand carries only so many bytes with a
// rejection.
std::string EncodeReject(const Reject& reject) {
  const absl::string_view text = CutText(reject.text, kRejectTextBytesMax);
  std::string data;
  AppendHeader(PrivateKind::kReject, ProtocolVersions().lowest,
               kRejectTextOffset + text.size(), &data);
  Append(static_cast<uint16_t>(reject.reason), &data);
  absl::StrAppend(&data, text);
  AppendVersions(ProtocolVersions(), &data);
  return data;
}

// Checks the exact length before any field, so that Load() stays within the
// data.
absl::StatusOr<ConnectRequest> DecodeConnectRequest(
    absl::Span<const uint8_t> private_data) {
  ASSIGN_OR_RETURN(const absl::Span<const uint8_t> data,
                   Unpad(private_data, PrivateKind::kRequest));
  RETURN_IF_ERROR(CheckLength(data, kRequestBytes));
  ConnectRequest request;
  ASSIGN_OR_RETURN(request.limits, DecodeLimits(data));
  const auto arena = Load<PrivateArena>(data, kReplyBytes);
  RETURN_IF_ERROR(CheckRange("unused field", arena.zero, 0, 0));
  request.arena = {
      .address = arena.address, .bytes = arena.bytes, .rkey = arena.rkey};
  RETURN_IF_ERROR(CheckArena(request.arena));
  request.versions = FindVersions(private_data);
  return request;
}

// As DecodeConnectRequest(), without an arena: a server offers none.
absl::StatusOr<ConnectReply> DecodeConnectReply(
    absl::Span<const uint8_t> private_data) {
  ASSIGN_OR_RETURN(const absl::Span<const uint8_t> data,
                   Unpad(private_data, PrivateKind::kReply));
  RETURN_IF_ERROR(CheckLength(data, kReplyBytes));
  ConnectReply reply;
  ASSIGN_OR_RETURN(reply.limits, DecodeLimits(data));
  reply.version = Load<PrivateHeader>(data, 0).version;
  reply.versions = FindVersions(private_data);
  return reply;
}

// Accepts any text up to the end of the private data, and none.
absl::StatusOr<Reject> DecodeReject(absl::Span<const uint8_t> private_data) {
  ASSIGN_OR_RETURN(const absl::Span<const uint8_t> data,
                   Unpad(private_data, PrivateKind::kReject));
  if (data.size() < kRejectTextOffset) {
    return CheckLength(data, kRejectTextOffset);
  }
  const auto reason = Load<uint16_t>(data, sizeof(PrivateHeader));
  RETURN_IF_ERROR(
      CheckRange("reason to reject", reason,
                 static_cast<uint16_t>(RejectReason::kBadHello),
                 static_cast<uint16_t>(RejectReason::kShuttingDown)));
  Reject reject;
  reject.reason = static_cast<RejectReason>(reason);
  reject.text = std::string(AsText(data.subspan(kRejectTextOffset)));
  return reject;
}

// Begins with the peer's own text, and explains the reason for people where
// that text does not.
absl::Status RejectStatus(const Reject& reject) {
  std::string message = "the server rejected the connection";
  // If the server has explained kFull or kShuttingDown, its own text says all
  // of it.
  const bool explained = !reject.text.empty();
  if (explained) {
    absl::StrAppend(&message, ": ", absl::Utf8SafeCHexEscape(reject.text));
  }
  switch (reject.reason) {
    case RejectReason::kBadHello:
      absl::StrAppend(&message, " (it could not read this client's hello)");
      return absl::FailedPreconditionError(message);
    case RejectReason::kBadVersion:
      absl::StrAppend(&message, " (this client speaks ",
                      VersionsText(ProtocolVersions()), ")");
      return absl::UnavailableError(message);
    case RejectReason::kFull:
      if (!explained) {
        absl::StrAppend(&message, ": it has no room for one more");
      }
      return absl::UnavailableError(message);
    case RejectReason::kShuttingDown:
      if (!explained) absl::StrAppend(&message, ": it is shutting down");
      return absl::UnavailableError(message);
  }
  return absl::InternalError(message);  // No such reason: DecodeReject checks.
}

std::string EncodeOptions(const std::vector<HelloOption>& options) {
  std::string body;
  for (const HelloOption& option : options) {
    CHECK_LE(option.value.size(), UINT16_MAX) << "option " << option.type;
    Append(option.type, &body);
    Append(static_cast<uint16_t>(option.value.size()), &body);
    body.append(option.value);
  }
  return body;
}

// Cuts one option after the other from the front of `body`. Each known type
// comes once at most, so the search for doubles is short.
absl::StatusOr<std::vector<HelloOption>> DecodeOptions(
    absl::Span<const uint8_t> body) {
  constexpr size_t kHeadBytes = 2 * sizeof(uint16_t);
  std::vector<HelloOption> options;
  while (!body.empty()) {
    if (body.size() < kHeadBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("the peer's options are cut off: the last one has only ",
                       body.size(), " bytes"));
    }
    const auto type = Load<uint16_t>(body, 0);
    const auto bytes = Load<uint16_t>(body, sizeof(uint16_t));
    body.remove_prefix(kHeadBytes);
    if (bytes > body.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the peer's option ", type, " has ", bytes,
                       " bytes, but ", body.size(), " follow"));
    }
    const absl::Span<const uint8_t> value = body.first(bytes);
    body.remove_prefix(bytes);
    if (!IsKnownOption(type)) {
      // Options of later releases are skipped, unless their sender cannot do
      // without.
      if ((type & kCriticalOption) == 0) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("the peer demands option ", type & ~kCriticalOption,
                       ", which this side does not know"));
    }
    if (std::any_of(options.begin(), options.end(),
                    [type](const auto& o) { return o.type == type; })) {
      return absl::InvalidArgumentError(
          absl::StrCat("the peer sent option ", type, " twice"));
    }
    options.push_back({.type = type, .value = std::string(AsText(value))});
  }
  return options;
}

const std::string* FindOption(const std::vector<HelloOption>& options,
                              uint16_t type) {
  for (const HelloOption& option : options) {
    if (option.type == type) return &option.value;
  }
  return nullptr;
}

absl::StatusOr<bool> AsksForChecksum(const std::vector<HelloOption>& options) {
  const std::string* const kind = FindOption(options, kOptionChecksum);
  if (kind == nullptr) return false;
  if (*kind == kChecksumKind) return true;
  return absl::FailedPreconditionError(
      absl::StrCat("the peer demands checksums of the kind ",
                   absl::Utf8SafeCHexEscape(*kind),
                   ", and this side knows only ", kChecksumKind));
}

std::string HellosText(ConnectRequest request, ConnectReply reply,
                       absl::string_view hello_body) {
  if (!request.versions.has_value()) reply.versions.reset();
  if (!reply.versions.has_value()) request.versions.reset();
  std::string text;
  // With its length before each, no two triples have the same text.
  for (const std::string& part :
       {EncodeConnectRequest(request), EncodeConnectReply(reply),
        std::string(hello_body)}) {
    Append(static_cast<uint32_t>(part.size()), &text);
    absl::StrAppend(&text, part);
  }
  return text;
}

}  // namespace verbena::transport
