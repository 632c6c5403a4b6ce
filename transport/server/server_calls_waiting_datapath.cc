// ServerCalls: what waits for credits, for memory or for its turn.

#include <utility>

#include "absl/base/optimization.h"
#include "transport/server/server_calls.h"

namespace verbena::transport {

void ServerCalls::QueueFrame(ServerCall* call, State state) {
  call->state_ = state;
  if (!frame_waiters_.empty() || !SendQueued(call)) {
    frame_waiters_.PushBack(call);
    NoteExpiry(*call);
    connection_.NoteWaiting();
  }
}

bool ServerCalls::SendQueued(ServerCall* call) {
  const bool pending = call->state_ == State::kPendingQueued;
  if (!pending && ABSL_PREDICT_FALSE(MetadataDue(*call)) &&
      !SendMetadata(call)) {
    return !connection_.usable();  // Then the call is gone.
  }
  uint8_t* const out = connection_.BeginFrame(
      pending ? sizeof(ResponsePendingHeader) : ResponseFrameBytes(call),
      /*spare_credits=*/0);
  if (out == nullptr) return false;
  if (pending) {
    SendPending(call, out);
  } else {
    SendResponse(call, out);
  }
  return true;
}

bool ServerCalls::SendWaiting() {
  if (opening_due_) SendOpening();
  if (!connection_.usable()) return opening_due_;
  SendFrames();
  if (ABSL_PREDICT_FALSE(!initial_waiters_.empty())) SendInitialMetadata();
  do {
    streams_.Send();
    StartTransfers();
    if (!connection_.usable()) return false;  // Either may have lost it.
    PostChunks();
    // Behind a WRITE of a stream goes its MESSAGE, and then the next WRITE.
  } while (std::exchange(stream_write_posted_, false) && connection_.usable());
  if (!draining_.empty()) FinishDrained();
  if (!connection_.usable()) return false;
  return opening_due_ || streams_.waiting() || !frame_waiters_.empty() ||
         !initial_waiters_.empty() || !turn_waiters_.empty() ||
         !memory_waiters_.empty() || transfers_.waiting();
}

void ServerCalls::PostChunks() {
  const int error = transfers_.PostChunks(
      connection_.send_queue(), [this](BulkTransfer* transfer) {
        if (transfer->opcode != IBV_WR_RDMA_WRITE) return;
        // A RESPONSE below may have lost it, and all calls with it.
        if (!connection_.usable()) return;
        // The queue pair keeps the order: the RESPONSE arrives after the data.
        ServerCall* const call = static_cast<ServerCall*>(transfer->owner);
        if (transfer->of_stream) return OnStreamWritePosted(call);
        if (--call->transfers_left_ > 0) return;
        call->reply_written_ = true;
        QueueFrame(call, State::kReplyQueued);
      });
  if (error != 0) connection_.FailPostSlow(error);
}

void ServerCalls::FinishDrained() {
  ServerCall* call = draining_.front();
  while (call != nullptr && connection_.usable()) {
    ServerCall* const next = draining_.Next(call);
    if (IsDrained(*call)) {
      draining_.Remove(call);
      SendReply(call);
    }
    call = next;
  }
}

void ServerCalls::SendFrames() {
  // Each is taken out before it is tried: sending may lose the connection, and
  // that clears the queue.
  while (!frame_waiters_.empty() && connection_.usable()) {
    ServerCall* const call = frame_waiters_.front();
    frame_waiters_.Remove(call);
    if (SendQueued(call)) continue;
    frame_waiters_.PushFront(call);
    return;
  }
}

void ServerCalls::StartTransfers() {
  while (!turn_waiters_.empty() && large_reads_ < kLargeReadsMax) {
    ServerCall* const call = turn_waiters_.front();
    turn_waiters_.Remove(call);
    AwaitRequest(call);
  }
  while (!memory_waiters_.empty() && connection_.usable()) {
    ServerCall* const call = memory_waiters_.front();
    memory_waiters_.Remove(call);
    const bool moved = call->state_ == State::kAwaitsMemory ? StartReads(call)
                                                            : PlaceReply(call);
    if (moved) continue;
    memory_waiters_.PushFront(call);
    return;
  }
}

}  // namespace verbena::transport
