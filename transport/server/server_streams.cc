#include "transport/server/server_streams.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

namespace verbena::transport {

// Opens the stream before its handler has the call, because DATA may come right
// behind the REQUEST.
absl::Status ServerStreams::Open(ServerCall* call) {
  const uint32_t most = connection_.options().max_open_streams;
  const uint32_t open = shared_.slots.open_streams();
  if (most != 0 && open >= most) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the connection has ", open,
                     " streams open, which is its limit "
                     "(ServerBuilder::SetMaxConcurrentStreamsPerConnection); "
                     "this call was not processed"));
  }
  CallStream& stream = call->stream_part();
  stream.streamed = true;
  stream.lease_to_come = false;
  stream.writes_left = 0;
  stream.is_written = false;
  stream.read_waits = false;
  stream.transfers = 0;
  shared_.slots.AddStream(
      call,
      std::make_unique<MessageStream>(
          /*owner=*/nullptr, connection_.options().max_receive_message_bytes,
          "the server's limit (SetMaxReceiveMessageSize)",
          /*marks_end=*/false));
  call->stream()->Open(&line_, call->id());
  return absl::OkStatus();
}

// Lets the RESPONSE wait until all that the handler has written is sent. After
// a failure only the device's use of the client's memory is waited for.
void ServerStreams::Finish(ServerCall* call, const absl::Status& failure) {
  CallStream& stream = call->stream_part();
  if (!failure.ok()) {
    stream.messages->Close();
    ReplySender::SetRefusal(call, failure);
  }
  if (stream.drained()) return replies_.Send(call);
  call->Transition(ServerCallState::kDraining);
  // Initial metadata go first; the call joins the other line when they are
  // sent.
  ServerLines& lines = shared_.lines;
  (call->metadata_part().initial_due ? lines.initial_metadata : lines.draining)
      .PushBack(call);
  lines.NoteExpiry(*call);
}

void ServerStreams::FailDraining(ServerCall* call,
                                 const absl::Status& failure) {
  call->stream()->Close();
  ReplySender::SetRefusal(call, failure);
  // The device may still touch the client's memory: FinishDrained() goes on.
  if (!call->stream_part().drained()) return;
  ServerLines& lines = shared_.lines;
  (call->metadata_part().initial_due ? lines.initial_metadata : lines.draining)
      .Remove(call);
  replies_.Send(call);
}

void ServerStreams::FinishDrained() {
  base::IntrusiveList<ServerCall>& line = shared_.lines.draining;
  ServerCall* call = line.front();
  while (call != nullptr && connection_.usable()) {
    // Read now, because Send() may put the call into another line.
    ServerCall* const next = line.Next(call);
    if (call->stream_part().drained()) {
      line.Remove(call);
      replies_.Send(call);
    }
    call = next;
  }
}

}  // namespace verbena::transport
