#include <cstring>

#include "absl/types/span.h"
#include "transport/base/limits.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {
namespace {

constexpr uint32_t kUnavailableCode = 14;  // absl::StatusCode::kUnavailable.
constexpr uint32_t kLastStatusCode = 16;  // absl::StatusCode::kUnauthenticated.

// Rules for a type of frame that hold before its own fields are read.
struct TypeRule {
  uint8_t header_bytes;
  uint8_t flags;   // Those that mean something.
  bool of_a_call;  // Else call_id is zero.
  bool has_body;   // Else body_bytes is zero.
};

constexpr uint8_t kPlainBytes = sizeof(FrameHeader);
constexpr uint8_t kPlaceFlags = kFlagMessageInArena | kFlagAttachmentInArena;

// By number of the type; the first one stands for no type.
constexpr TypeRule kTypeRules[kLastFrameType + 1] = {
    {kPlainBytes, 0, false, false},
    /*HELLO=*/{kPlainBytes, 0, false, true},
    /*WELCOME=*/{kPlainBytes, 0, false, true},
    /*REQUEST=*/
    {sizeof(RequestHeader),
     kPlaceFlags | kFlagReplyLease | kFlagContinued | kFlagLeaseKey |
         kFlagStream,
     true, true},
    /*RESPONSE=*/
    {sizeof(ResponseHeader), kPlaceFlags | kFlagContinued | kFlagUnprocessed,
     true, true},
    /*RESPONSE_PENDING=*/{sizeof(ResponsePendingHeader), 0, true, false},
    /*LEASE=*/{sizeof(LeaseHeader), 0, true, false},
    /*CANCEL=*/{kPlainBytes, 0, true, false},
    /*ARENA=*/{sizeof(ArenaHeader), 0, false, false},
    /*GRANT=*/{kPlainBytes, 0, false, false},
    /*PING=*/{kPlainBytes, 0, false, false},
    /*PONG=*/{kPlainBytes, 0, false, false},
    /*GOAWAY=*/{kPlainBytes, 0, false, false},
    /*BYE=*/
    {kPlainBytes, kFlagUnauthenticated | kFlagDamaged, false, true},
    /*RETURN=*/{sizeof(ReturnHeader), 0, false, false},
    /*CONTINUATION=*/{kPlainBytes, 0, true, true},
    /*CREDENTIALS=*/{kPlainBytes, 0, false, true},
    /*DATA=*/{kPlainBytes, kFlagLastData, true, true},
    /*WINDOW=*/{sizeof(WindowHeader), 0, true, false},
    /*METADATA=*/
    {kPlainBytes, kFlagMetadataEnd | kFlagInitialMetadata, true, true},
    /*MESSAGE=*/{sizeof(LongMessageHeader), kPlaceFlags, true, true},
};

// `frame` is the header that all types share, of a known type. Compares lengths
// and flags with the rule of the type. The lengths come first, because the
// checks of a type read its whole header.
const char* CommonError(const FrameHeader& frame, uint64_t frame_bytes) {
  const TypeRule& rule = kTypeRules[static_cast<uint8_t>(frame.type)];
  if (frame.header_bytes != rule.header_bytes) {
    return "header_bytes does not match the frame type";
  }
  // In 64 bits, because the peer may claim any body_bytes of 32 bits.
  const uint64_t whole_bytes = uint64_t{frame.header_bytes} + frame.body_bytes;
  if ((frame.flags & rule.flags & kFlagContinued) != 0) {
    // A continued frame brings its whole header, and leaves at least a byte of
    // its body to a CONTINUATION.
    if (frame_bytes < frame.header_bytes || frame_bytes >= whole_bytes) {
      return "continued frame that has no beginning or is complete";
    }
    if (frame.body_bytes > kContinuedBytesMax) {
      return "continued frame that is too long";
    }
  } else if (frame_bytes != whole_bytes) {
    return "length is not header_bytes + body_bytes";
  }
  // Flow flags speak of credits, and mean the same in every type.
  const uint8_t flags = frame.flags & static_cast<uint8_t>(~kFlowFlags);
  if ((flags & ~rule.flags) != 0) {
    return "flag that the frame type does not have";
  }
  if (!rule.of_a_call && frame.call_id != 0) {
    return "call_id in a frame that belongs to no call";
  }
  if (!rule.has_body && frame.body_bytes != 0) {
    return "body in a frame type that has none";
  }
  if (frame.type == FrameType::kContinuation && frame.body_bytes == 0) {
    return "empty continuation";
  }
  if (frame.type == FrameType::kData && frame.body_bytes == 0 && flags == 0) {
    return "empty DATA that is not the last";
  }
  if (frame.type == FrameType::kMetadata && frame.body_bytes == 0 &&
      (flags & kFlagMetadataEnd) == 0) {
    return "empty METADATA that are not the last";
  }
  return nullptr;
}

const char* LeaseKeyError(const RequestHeader& request,
                          absl::Span<const uint8_t> body) {
  if ((request.frame.flags & kFlagReplyLease) == 0) {
    return "key of a lease without a lease";
  }
  LeaseKey key;
  // A continued frame brings only the beginning of its body; the key must be
  // in it.
  if (body.size() < sizeof(key)) return "no room for the key of a lease";
  std::memcpy(&key, body.data(), sizeof(key));
  if (key.rkey == 0) return "key of a lease that is zero";
  return key.zero != 0 ? "unused field is not zero" : nullptr;
}

// Returns what is wrong with the places of a REQUEST's or MESSAGE's parts,
// or null.
template <typename Header>
const char* PlaceError(const Header& header) {
  if ((header.frame.flags & kFlagMessageInArena) != 0) {
    if (header.message_bytes == 0) return "empty message in an arena";
  } else if (header.message_offset != 0 || header.message_arena != 0) {
    return "arena address for an inline message";
  }
  if ((header.frame.flags & kFlagAttachmentInArena) != 0) {
    if (header.attachment_bytes == 0) return "empty attachment in an arena";
  } else if (header.attachment_offset != 0 || header.attachment_arena != 0) {
    return "arena address for an inline attachment";
  }
  return nullptr;
}

// How many bytes of its parts are in the body of such a frame, or a RESPONSE.
template <typename Header>
uint64_t InlineBytes(const Header& header) {
  const uint8_t flags = header.frame.flags;
  return ((flags & kFlagMessageInArena) != 0 ? 0
                                             : uint64_t{header.message_bytes}) +
         ((flags & kFlagAttachmentInArena) != 0
              ? 0
              : uint64_t{header.attachment_bytes});
}

// Checks every part by itself and last their sum, so SplitRequest() can cut the
// body without looking.
const char* RequestError(const RequestHeader& request,
                         absl::Span<const uint8_t> body) {
  if (request.metadata_bytes > kFrameMetadataBytes) return "metadata too long";
  if ((request.frame.flags & kFlagStream) != 0 &&
      (request.message_bytes != 0 || request.attachment_bytes != 0 ||
       (request.frame.flags & kFlagReplyLease) != 0)) {
    return "stream with a message in its REQUEST";
  }
  if (const char* error = PlaceError(request)) return error;
  if ((request.frame.flags & kFlagReplyLease) != 0) {
    if (request.reply_bytes == 0) return "empty reply lease";
  } else if (request.reply_offset != 0 || request.reply_bytes != 0 ||
             request.reply_arena != 0) {
    return "reply lease without its flag";
  }
  const bool has_key = request.frame.flags & kFlagLeaseKey;
  if (has_key) {
    if (const char* error = LeaseKeyError(request, body)) return error;
  }
  // Lengths of 32 bits are summed in 64, so a wrapped sum cannot pass.
  const uint64_t parts = (has_key ? sizeof(LeaseKey) : 0) +
                         uint64_t{request.metadata_bytes} +
                         InlineBytes(request);
  if (parts != request.frame.body_bytes) return "parts do not fill the body";
  return nullptr;
}

// Checks every part by itself and last their sum, so SplitResponse() can cut
// the body without looking.
const char* ResponseError(const ResponseHeader& response) {
  const bool message_in_arena = response.frame.flags & kFlagMessageInArena;
  const bool attachment_in_arena =
      response.frame.flags & kFlagAttachmentInArena;
  if (response.code > kLastStatusCode) return "unknown status code";
  if (response.status_message_bytes > kMaxStatusMessageBytes) {
    return "status message too long";
  }
  if (response.metadata_bytes > kFrameMetadataBytes) return "metadata too long";
  if (message_in_arena && response.message_bytes == 0) {
    return "empty message in an arena";
  }
  if (attachment_in_arena && response.attachment_bytes == 0) {
    return "empty attachment in an arena";
  }
  // The client may make such a call elsewhere, so nothing of a reply may have
  // come with it.
  if ((response.frame.flags & kFlagUnprocessed) != 0 &&
      (response.code != kUnavailableCode || response.metadata_bytes != 0 ||
       response.message_bytes != 0 || response.attachment_bytes != 0)) {
    return "unprocessed call with a part of a reply";
  }
  const uint64_t parts = uint64_t{response.status_message_bytes} +
                         response.metadata_bytes + InlineBytes(response);
  if (parts != response.frame.body_bytes) return "parts do not fill the body";
  return nullptr;
}

const char* ResponsePendingError(const ResponsePendingHeader& pending) {
  if (pending.message_bytes == 0 && pending.attachment_bytes == 0) {
    return "pending response that needs no lease";
  }
  return nullptr;
}

const char* LeaseError(const LeaseHeader& lease) {
  return lease.zero != 0 ? "unused field is not zero" : nullptr;
}

const char* LongMessageError(const LongMessageHeader& message) {
  if ((message.frame.flags & kPlaceFlags) == 0) {
    return "MESSAGE with nothing in an arena";
  }
  if (const char* error = PlaceError(message)) return error;
  if (InlineBytes(message) != message.frame.body_bytes) {
    return "parts do not fill the body";
  }
  return message.zero != 0 ? "unused field is not zero" : nullptr;
}

const char* ArenaError(const ArenaHeader& arena) {
  // Index and range are RemoteArenas' to judge, which knows those before.
  if (arena.bytes == 0 && (arena.address != 0 || arena.rkey != 0)) {
    return "withdrawn arena with an address";
  }
  return arena.zero != 0 ? "unused field is not zero" : nullptr;
}

const char* ReturnError(const ReturnHeader& header) {
  if (header.credits == 0) return "RETURN of nothing";
  return header.zero != 0 ? "unused field is not zero" : nullptr;
}

// The next `bytes` of a body.
absl::Span<const uint8_t> TakePart(uint32_t bytes,
                                   absl::Span<const uint8_t>* body) {
  const absl::Span<const uint8_t> part = body->first(bytes);
  body->remove_prefix(bytes);
  return part;
}

}  // namespace

uint16_t HeaderBytes(FrameType type) {
  const uint8_t number = static_cast<uint8_t>(type);
  return number <= kLastFrameType ? kTypeRules[number].header_bytes
                                  : kPlainBytes;
}

// Checks in the order in which fields can be trusted: length, type, the rule of
// the type, then the type's own fields.
const char* FrameError(absl::Span<const uint8_t> frame) {
  if (frame.size() < sizeof(FrameHeader)) return "shorter than a header";
  const auto header = LoadHeader<FrameHeader>(frame);
  const uint8_t number = static_cast<uint8_t>(header.type);
  if (number < kFirstFrameType || number > kLastFrameType) {
    return "unknown frame type";
  }
  const char* const error = CommonError(header, frame.size());
  if (error != nullptr) return error;
  // From here on, the whole header of the type is inside the frame.
  switch (header.type) {
    case FrameType::kRequest:
      return RequestError(LoadHeader<RequestHeader>(frame), FrameBody(frame));
    case FrameType::kResponse:
      return ResponseError(LoadHeader<ResponseHeader>(frame));
    case FrameType::kResponsePending:
      return ResponsePendingError(LoadHeader<ResponsePendingHeader>(frame));
    case FrameType::kLease:
      return LeaseError(LoadHeader<LeaseHeader>(frame));
    case FrameType::kArena:
      return ArenaError(LoadHeader<ArenaHeader>(frame));
    case FrameType::kReturn:
      return ReturnError(LoadHeader<ReturnHeader>(frame));
    case FrameType::kMessage:
      return LongMessageError(LoadHeader<LongMessageHeader>(frame));
    default:
      return nullptr;
  }
}

// Checks what only trains demand, after the checks for all frames. A plain
// frame has passed those: see IsPlainCall().
const char* TrainFrameError(absl::Span<const uint8_t> frame, bool plain) {
  if (!plain) {
    if (const char* const error = FrameError(frame)) return error;
  }
  const auto header = LoadHeader<FrameHeader>(frame);
  if (header.type != FrameType::kRequest &&
      header.type != FrameType::kResponse) {
    return "a train has a frame that is neither REQUEST nor RESPONSE";
  }
  if ((header.flags & kFlagContinued) != 0) {
    return "a train has a frame that is continued";
  }
  // The first header of a train speaks for its one SEND, which takes one
  // credit.
  if ((header.flags & kFlowFlags) != 0 || header.credit_limit != 0) {
    return "a frame of a train other than the first has credit fields";
  }
  return nullptr;
}

// Takes the parts in the order of RequestHeader. FrameError() has made sure
// that they fill the body, so no length is checked again.
RequestBody SplitRequest(absl::Span<const uint8_t> frame) {
  const auto header = LoadHeader<RequestHeader>(frame);
  const uint8_t flags = header.frame.flags;
  absl::Span<const uint8_t> rest = FrameBody(frame);
  RequestBody body;
  if ((flags & kFlagLeaseKey) != 0) {
    LeaseKey key;
    std::memcpy(&key, TakePart(sizeof(key), &rest).data(), sizeof(key));
    body.lease_rkey = key.rkey;
  }
  body.metadata = TakePart(header.metadata_bytes, &rest);
  if ((flags & kFlagMessageInArena) == 0) {
    body.message = TakePart(header.message_bytes, &rest);
  }
  if ((flags & kFlagAttachmentInArena) == 0) {
    body.attachment = TakePart(header.attachment_bytes, &rest);
  }
  return body;
}

// Takes the parts in the order of ResponseHeader, which FrameError() has
// checked as well.
ResponseBody SplitResponse(absl::Span<const uint8_t> frame) {
  const auto header = LoadHeader<ResponseHeader>(frame);
  const uint8_t flags = header.frame.flags;
  absl::Span<const uint8_t> rest = FrameBody(frame);
  ResponseBody body;
  body.status_message = TakePart(header.status_message_bytes, &rest);
  body.metadata = TakePart(header.metadata_bytes, &rest);
  if ((flags & kFlagMessageInArena) == 0) {
    body.message = TakePart(header.message_bytes, &rest);
  }
  if ((flags & kFlagAttachmentInArena) == 0) {
    body.attachment = TakePart(header.attachment_bytes, &rest);
  }
  return body;
}

absl::Span<const uint8_t> FrameBody(absl::Span<const uint8_t> frame) {
  return frame.subspan(LoadHeader<FrameHeader>(frame).header_bytes);
}

}  // namespace verbena::transport
