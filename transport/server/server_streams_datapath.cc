#include "transport/server/server_streams.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {

ServerCall* ServerStreams::Find(uint32_t call_id) {
  ServerCall* const call = shared_.slots.Find(call_id);
  // Its RESPONSE may have crossed the frame, or its handler have returned.
  if (call == nullptr || call->id() != call_id || call->cancelled() ||
      (!call->is_handled() && call->state() != ServerCallState::kDraining)) {
    return nullptr;
  }
  if (call->stream() != nullptr) return call;
  connection_.ProtocolError(kNoStream);
  return nullptr;
}

// Passes the bytes to the stream, and serves it only if the client should be
// allowed to send more.
void ServerStreams::HandleData(absl::Span<const uint8_t> frame) {
  const auto& header = HeaderIn<FrameHeader>(frame);
  ServerCall* const call = Find(header.call_id);
  // When the handler has returned, nobody reads it.
  if (call == nullptr || call->state() == ServerCallState::kDraining) return;
  MessageStream* const stream = call->stream();
  const char* const error = stream->OnData(frame.subspan(sizeof(header)),
                                           (header.flags & kFlagLastData) != 0);
  if (error != nullptr) return connection_.ProtocolError(error);
  if (!stream->failure().ok()) {
    Fail(call);
  } else if (stream->GrantDue()) {
    line_.Serve(stream);
  }
}

void ServerStreams::Fail(ServerCall* call) {
  // The handler reads and writes nothing more, and can tell that the client has
  // not sent all; its call ends with the failure.
  call->set_cancelled();
  call->stream()->Close();
  if (call->is_handled()) shared_.slots.TellHandlerOfCancel(call);
}

void ServerStreams::HandleWindow(absl::Span<const uint8_t> frame) {
  const auto& header = HeaderIn<WindowHeader>(frame);
  ServerCall* const call = Find(header.frame.call_id);
  // A stream that has failed may be over while the call waits for its READs.
  if (call == nullptr || !call->stream()->is_open()) return;
  const char* const error =
      header.message_limit == 0
          ? call->stream()->OnWindow(header.limit)
          : "it allowed MESSAGEs, for which a server needs leases";
  if (error != nullptr) return connection_.ProtocolError(error);
  line_.Serve(call->stream());
}

}  // namespace verbena::transport
