#include "transport/wire/frame_codec.h"

namespace verbena::transport {

// No case is the default, so -Wall reports a type that has no name here.
const char* FrameTypeName(FrameType type) {
  switch (type) {
    case FrameType::kHello:
      return "HELLO";
    case FrameType::kWelcome:
      return "WELCOME";
    case FrameType::kRequest:
      return "REQUEST";
    case FrameType::kResponse:
      return "RESPONSE";
    case FrameType::kResponsePending:
      return "RESPONSE_PENDING";
    case FrameType::kLease:
      return "LEASE";
    case FrameType::kCancel:
      return "CANCEL";
    case FrameType::kArena:
      return "ARENA";
    case FrameType::kContinuation:
      return "CONTINUATION";
    case FrameType::kGrant:
      return "GRANT";
    case FrameType::kPing:
      return "PING";
    case FrameType::kPong:
      return "PONG";
    case FrameType::kGoAway:
      return "GOAWAY";
    case FrameType::kBye:
      return "BYE";
    case FrameType::kReturn:
      return "RETURN";
    case FrameType::kCredentials:
      return "CREDENTIALS";
    case FrameType::kData:
      return "DATA";
    case FrameType::kWindow:
      return "WINDOW";
    case FrameType::kMetadata:
      return "METADATA";
    case FrameType::kMessage:
      return "MESSAGE";
  }
  return "UNKNOWN";  // A number that a peer made up.
}

}  // namespace verbena::transport
