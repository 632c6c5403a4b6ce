#include "rpc/internal/client/stream_call.h"

#include <utility>

#include "absl/base/optimization.h"
#include "rpc/internal/client/channel_impl.h"
#include "rpc/internal/client/open_calls.h"

namespace verbena::internal {

using google::protobuf::MessageLite;

// Registers the stream with the transport before the start, because the REQUEST
// carries the flag.
StreamCall::StreamCall(ChannelImpl* channel, std::shared_ptr<const void> owner,
                       const char* method_name, uint64_t method_id,
                       ClientContext* context)
    : OpenCall(channel->calls(), method_name, method_id, context,
               /*has_context=*/false, /*streams=*/true),
      channel_(*channel),
      owner_(std::move(owner)),
      messages_(this, channel->max_receive_message_bytes(),
                "this client's max_receive_message_bytes",
                /*marks_end=*/true),
      typed_(&messages_, channel->max_send_message_bytes(),
             "what this client's max_send_message_bytes allows") {
  set_stream(&messages_);
}

// Reserves the context, calls the interceptors, opens the context, and starts
// the call. Each step leaves a status if it fails.
bool StreamCall::Start(RpcType type) {
  ReserveContext();
  if (has_context() && ABSL_PREDICT_FALSE(calls().interceptors() != nullptr)) {
    if (!StartInterception(type)) return false;
    typed_.set_hooks(interception());
  }
  if (!OpenContext()) return false;
  // A stream sends and receives without a thread that waits, until its owner
  // says otherwise.
  in_background = true;
  channel_.Start(this);
  return true;
}

// Reserves the context all the same, so that it is released as after any call.
bool StreamCall::NotStarted(const absl::Status& status) {
  ReserveContext();
  return has_context() ? NotOpened(status) : ContextInUse();
}

// A message that cannot be parsed or sent says nothing to the server. The
// cancellation does.
StreamCall::Result StreamCall::Checked(Result result) {
  if (result == Result::kOver && typed_.failed()) context_->TryCancel();
  return result;
}

StreamCall::Result StreamCall::TryRead(MessageLite* message,
                                       Buffer* attachment) {
  return Checked(typed_.Read(message, attachment, [this](size_t bytes) {
    return channel_.AllocateBuffer(bytes);
  }));
}

StreamCall::Result StreamCall::TryWrite(const MessageLite& message,
                                        Attachment attachment) {
  return Checked(typed_.Write(message, attachment, [this](size_t bytes) {
    return channel_.AllocateSpare(bytes);
  }));
}

// Counts the messages, chooses the status, and tells the interceptors last,
// which may change it.
absl::Status StreamCall::TakeFinalStatus() {
  // A stream that never started has no counters.
  if (counters() != nullptr) {
    counters()->NoteStream(typed_.write_count(), typed_.read_count());
  }
  absl::Status status = TakeStatus();
  // The cause, where it was the stream that had the call cancelled.
  if (absl::IsCancelled(status) && !typed_.failure().ok()) {
    status = Explain(typed_.failure());
  }
  if (interception() != nullptr) interception()->End(&status);
  return status;
}

void StreamCall::WriteRequest(uint8_t* out) { WriteHead(out); }

// A stream that can be restarted still has all that it has sent.
void StreamCall::OnResponse(const transport::CallResponse& response) {
  attempt.EndWith(response);
  if (ABSL_PREDICT_FALSE(response.unprocessed) && messages_.can_restart() &&
      MayTryAgain()) {
    return calls().TryAgain(this);
  }
  if (TakeTrailer(response)) End();
}

// The user may see them from now on, so they must be those of the last attempt.
absl::Status StreamCall::OnInitialMetadata(absl::Span<const uint8_t> metadata) {
  messages_.ForbidRestart();
  return OpenCall::OnInitialMetadata(metadata);
}

void StreamCall::PostStream() { channel_.Post(&messages_); }

}  // namespace verbena::internal
