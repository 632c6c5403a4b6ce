#include "transport/server/request_intake.h"

#include "absl/strings/str_cat.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {

void RequestIntake::RefuseTooLarge(ServerCall* call, uint64_t bytes) {
  replies_.Refuse(call, absl::ResourceExhaustedError(absl::StrCat(
                            "a request of ", bytes,
                            " bytes is larger than the server's limit "
                            "(SetMaxReceiveMessageSize), ",
                            connection_.options().max_receive_message_bytes)));
}

void RequestIntake::HandlePart(absl::Span<const uint8_t> frame) {
  if (const char* error = assembly_.Add(frame, &connection_.memory().pool())) {
    return connection_.ProtocolError(error);
  }
  if (!assembly_.complete()) return;
  Buffer whole = assembly_.Take();
  if (LoadHeader<FrameHeader>(whole.span()).type != FrameType::kRequest) {
    return connection_.ProtocolError(
        "a client sent a frame that only servers send");
  }
  Handle(whole.span(), &whole);
}

}  // namespace verbena::transport
