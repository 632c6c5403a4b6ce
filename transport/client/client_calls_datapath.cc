#include "absl/base/optimization.h"
#include "transport/client/client_calls.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {

// Gives a frame to its class by its type. Before the WELCOME, and amid the
// parts of a continued frame, the type does not count.
void ClientCalls::OnFrame(absl::Span<const uint8_t> frame, bool plain) {
  const FrameType type = HeaderIn<FrameHeader>(frame).type;
  if (ABSL_PREDICT_FALSE(!connection().usable())) return HandleOpening(frame);
  if (ABSL_PREDICT_FALSE(responses_.IsPart(frame))) {
    return responses_.HandlePart(frame);
  }
  switch (type) {
    case FrameType::kResponse:
      return ABSL_PREDICT_TRUE(plain) ? responses_.HandlePlain(frame)
                                      : responses_.Handle(frame, nullptr);
    case FrameType::kResponsePending:
      return sent_.HandlePending(frame);
    case FrameType::kData:
      return streams_.HandleData(frame);
    case FrameType::kWindow:
      return streams_.HandleWindow(frame);
    case FrameType::kMetadata:
      return responses_.HandleMetadata(frame);
    case FrameType::kMessage:
      return streams_.HandleLongMessage(frame);
    case FrameType::kLease:
      return streams_.HandleLease(frame);
    case FrameType::kWelcome:
    case FrameType::kCredentials:
      return connection().ProtocolError("it sent a second WELCOME");
    default:
      connection().ProtocolError(
          "a server sent a frame that only clients send");
  }
}

// Sends what is due first, because the server keeps a reply until its LEASE
// comes. Small requests have their own line, so no large one holds them up.
bool ClientCalls::SendWaiting() {
  if (!connection().usable()) return false;
  shared_.arenas.PostTakeBacks(connection());
  sent_.SendDue();
  requests_.SendQueued(&shared_.waiting_small);
  requests_.SendQueued(&shared_.waiting_large);
  streams_.Send();
  return streams_.waiting() > 0 || sent_.has_due() ||
         shared_.arenas.take_backs_due() || !shared_.waiting_small.empty() ||
         !shared_.waiting_large.empty();
}

}  // namespace verbena::transport
