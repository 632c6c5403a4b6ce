#include "absl/base/optimization.h"
#include "transport/server/server_calls.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {

// Gives a frame to its class by its type. Before the client is let in, and amid
// the parts of a continued frame, the type does not count.
void ServerCalls::OnFrame(absl::Span<const uint8_t> frame, bool plain) {
  const FrameType type = HeaderIn<FrameHeader>(frame).type;
  if (ABSL_PREDICT_FALSE(!connection().usable())) {
    return admission_.Handle(frame);
  }
  if (ABSL_PREDICT_FALSE(intake_.IsPart(frame))) {
    return intake_.HandlePart(frame);
  }
  switch (type) {
    case FrameType::kRequest:
      return ABSL_PREDICT_TRUE(plain) ? intake_.HandlePlain(frame)
                                      : intake_.Handle(frame, nullptr);
    case FrameType::kData:
      return streams_.HandleData(frame);
    case FrameType::kWindow:
      return streams_.HandleWindow(frame);
    case FrameType::kMessage:
      return streams_.HandleLongMessage(frame);
    case FrameType::kMetadata:
      return metadata_.Handle(frame);
    case FrameType::kLease:
      return HandleLease(frame);
    case FrameType::kCancel:
      return HandleCancel(frame);
    case FrameType::kArena:
      return HandleArena(frame);
    case FrameType::kHello:
    case FrameType::kCredentials:
      return connection().ProtocolError("it sent a second HELLO");
    default:
      connection().ProtocolError(
          "a client sent a frame that only servers send");
  }
}

uint8_t* ServerCall::BeginReply(uint64_t message_bytes) {
  return calls_.replies().BeginPlain(this, message_bytes);
}

void ServerCall::SendReply() { calls_.replies().SendPlain(this); }

void ServerCall::Finish(Reply reply) { calls_.Finish(this, std::move(reply)); }

// Ends a call as its state now allows. A lost connection leaves nothing to
// send, and errors of the transport replace the reply.
void ServerCalls::Finish(ServerCall* call, ServerReply&& reply) {
  shared_.slots.TakeBack(call);
  call->reply().content = std::move(reply);
  if (!connection().usable()) return shared_.slots.Free(call);
  if (ABSL_PREDICT_FALSE(call->metadata_part().initial_due)) {
    // A call stands in one line at most, and its end may put it into another.
    shared_.lines.initial_metadata.Remove(call);
  }
  absl::Status refusal = replies_.Check(call->reply().content);
  if (call->cancelled()) {
    refusal = absl::CancelledError("the client cancelled the call");
  }
  if (call->stream() != nullptr) {
    const absl::Status failure = call->stream()->failure();
    streams_.Finish(call, failure.ok() ? refusal : failure);
  } else if (!refusal.ok()) {
    replies_.Refuse(call, std::move(refusal));
  } else {
    replies_.Send(call);
  }
  connection().SendWaitingSoon();
}

// Sends frames that wait for credits first, which free what their calls hold.
// Streams and transfers then bring each other on until neither can.
bool ServerCalls::SendWaiting() {
  if (admission_.due() && admission_.SendDue()) replies_.OnOpen();
  if (!connection().usable()) return admission_.due();
  replies_.SendFrames();
  const ServerLines& lines = shared_.lines;
  if (ABSL_PREDICT_FALSE(!lines.initial_metadata.empty())) {
    metadata_.SendInitial();
  }
  do {
    streams_.Send();
    StartTransfers();
    if (!connection().usable()) return false;  // Either may have lost it.
    PostChunks();
    // Behind a WRITE of a stream goes its MESSAGE, and then the next WRITE.
  } while (streams_.TakeWritePosted() && connection().usable());
  if (!lines.draining.empty()) streams_.FinishDrained();
  if (!connection().usable()) return false;
  return admission_.due() || streams_.waiting() > 0 || !lines.frames.empty() ||
         !lines.initial_metadata.empty() || !lines.turns.empty() ||
         !lines.memory.empty() || shared_.transfers.waiting();
}

// Serves calls in the order in which they came, whether they wait for memory
// for a request or for a reply.
void ServerCalls::StartTransfers() {
  intake_.StartTurns();
  base::IntrusiveList<ServerCall>& line = shared_.lines.memory;
  while (!line.empty() && connection().usable()) {
    ServerCall* const call = line.front();
    line.Remove(call);
    const bool moved = call->state() == ServerCallState::kAwaitsMemory
                           ? intake_.StartReads(call)
                           : replies_.PlaceReply(call);
    if (moved) continue;
    // Others might fit, but the first would then wait for ever.
    line.PushFront(call);
    return;
  }
}

void ServerCalls::PostChunks() {
  const int error = shared_.transfers.PostChunks(
      connection().send_queue(), [this](BulkTransfer* transfer) {
        // Frames may follow a WRITE as soon as it is posted. A READ counts when
        // it has ended.
        if (transfer->opcode != IBV_WR_RDMA_WRITE) return;
        // A RESPONSE below may have lost it, and all calls with it.
        if (!connection().usable()) return;
        ServerCall* const call = static_cast<ServerCall*>(transfer->owner);
        if (transfer->of_stream) {
          streams_.OnWritePosted(call);
        } else {
          replies_.OnWritePosted(call);
        }
      });
  if (error != 0) connection().FailPostSlow(error);
}

// Takes what it needs out of the transfer before that is released. A WRITE
// needs nothing more, because its frame did not wait for the completion.
void ServerCalls::OnTransferDone(void* tag) {
  BulkTransfer* const transfer = static_cast<BulkTransfer*>(tag);
  if (!shared_.transfers.ChunkDone(transfer)) return;
  ServerCall* const call = static_cast<ServerCall*>(transfer->owner);
  const bool read = transfer->opcode == IBV_WR_RDMA_READ;
  const bool of_stream = transfer->of_stream;
  const uint64_t number = transfer->number;
  shared_.transfers.Release(transfer);
  if (!read) return;
  if (!of_stream) return intake_.OnReadDone(call);
  // Else the call is gone.
  if (connection().usable()) streams_.OnReadDone(call, number);
}

}  // namespace verbena::transport
