// RequestIntake: parts of requests that lie in the client's arenas.

#include <utility>

#include "transport/server/request_intake.h"
#include "transport/wire/sealed_part.h"

namespace verbena::transport {

// Keeps all that the frame says, because its memory is posted again. A large
// request waits for its turn first, and only then for memory.
void RequestIntake::AwaitTurn(ServerCall* call, const RequestHeader& header,
                              absl::Span<const uint8_t> message) {
  CallRequest& request = call->request();
  const bool message_in_arena = header.frame.flags & kFlagMessageInArena;
  const bool attachment_in_arena = header.frame.flags & kFlagAttachmentInArena;
  if (!message_in_arena) {
    // The frame's memory is posted again before the attachment is here.
    request.held_message.assign(reinterpret_cast<const char*>(message.data()),
                                message.size());
    request.owns_message = true;
  }
  request.message_bytes = message_in_arena ? header.message_bytes : 0;
  request.attachment_bytes = attachment_in_arena ? header.attachment_bytes : 0;
  // Those of the next frame replace these.
  request.stated_sums = connection_.received_sums();
  request.first_chunk = connection_.received_first_chunk();
  call->Transition(ServerCallState::kAwaitsMemory);
  ServerLines& lines = shared_.lines;
  // A large request does not overtake those that wait for their turn.
  if (!request.is_large() ||
      (large_reads_ < kLargeReadsMax && lines.turns.empty())) {
    return AwaitMemory(call);
  }
  lines.turns.PushBack(call);
  lines.NoteExpiry(*call);
  connection_.NoteWaiting();
}

void RequestIntake::AwaitMemory(ServerCall* call) {
  if (call->request().is_large()) ++large_reads_;
  // First come, first served: no call overtakes those that wait for memory.
  if (!shared_.lines.memory.empty() || !StartReads(call)) {
    shared_.lines.AwaitMemory(call);
  }
  connection_.NoteWaiting();
}

void RequestIntake::StartTurns() {
  base::IntrusiveList<ServerCall>& line = shared_.lines.turns;
  while (!line.empty() && large_reads_ < kLargeReadsMax) {
    ServerCall* const call = line.front();
    line.Remove(call);
    AwaitMemory(call);
  }
}

// Allocates for both parts together, all or nothing, and READs both at once.
// Chunks take turns with those of other calls.
bool RequestIntake::StartReads(ServerCall* call) {
  CallRequest& request = call->request();
  Buffer message;
  Buffer attachment;
  const bool sealed = connection_.opener() != nullptr;
  const absl::Status status = shared_.memory.AllocateParts(
      sealed ? SealedRequestBytes(request.message_bytes)
             : request.message_bytes,
      sealed ? SealedRequestBytes(request.attachment_bytes)
             : request.attachment_bytes,
      &message, &attachment);
  // Buffers that come back will do: the call waits.
  if (absl::IsUnavailable(status)) return false;
  if (!status.ok()) {
    if (request.is_large()) --large_reads_;
    replies_.Refuse(call, status);
    return true;
  }
  call->Transition(ServerCallState::kReading);
  request.reads_left = 0;
  request.read_sums = {};
  request.opens = true;
  if (!message.empty()) {
    StartRead(call, &message, request.message_bytes, request.message_source,
              request.first_chunk, &request.read_sums.message);
    request.memory = std::move(message);
    request.owns_message = true;
  }
  if (!attachment.empty()) {
    StartRead(call, &attachment, request.attachment_bytes,
              request.attachment_source,
              request.first_chunk + SealChunks(request.message_bytes),
              &request.read_sums.attachment);
    request.attachment = std::move(attachment);
  }
  return true;
}

void RequestIntake::StartRead(ServerCall* call, Buffer* sink, uint32_t bytes,
                              const RemoteArenas::RemoteRange& source,
                              uint64_t first_chunk, uint32_t* sum) {
  ++call->request().reads_left;
  BulkTransfer* const transfer =
      shared_.transfers.Prepare(IBV_WR_RDMA_READ, *sink, source, call);
  if (connection_.expects_sums()) transfer->sum = sum;
  if (Opener* const opener = connection_.opener(); opener != nullptr) {
    uint8_t* const tags = sink->data();
    transfer->sealed_at = static_cast<uint32_t>(SealedRequestStart(bytes));
    sink->Narrow(transfer->sealed_at, bytes);
    transfer->seal = PartSeal(opener, first_chunk, sink->span(), tags);
    transfer->opens = &call->request().opens;
  }
  shared_.transfers.Start(transfer);
  connection_.NoteWaiting();
}

// Looks only now whether the call is still wanted. Before the last READ has
// ended nothing may free its memory, because the device writes there.
void RequestIntake::OnReadDone(ServerCall* call) {
  CallRequest& request = call->request();
  if (--request.reads_left > 0) return;
  if (request.is_large()) --large_reads_;
  // Bytes that differ end the connection, and reach no handler.
  if (connection_.expects_sums() && connection_.usable()) CheckParts(request);
  if (!request.opens && connection_.usable()) {
    connection_.NotOpened("a request", uint64_t{request.message_bytes} +
                                           request.attachment_bytes);
  }
  if (!connection_.usable()) {
    shared_.slots.Free(call);
  } else if (call->cancelled()) {
    replies_.Refuse(call,
                    absl::CancelledError("the client cancelled the call"));
  } else if (connection_.poller().now() >= call->expiry()) {
    replies_.Refuse(call, absl::DeadlineExceededError(
                              "the deadline of the call passed before its "
                              "request was read"));
  } else {
    request.message =
        request.memory.empty()
            ? absl::MakeConstSpan(
                  reinterpret_cast<const uint8_t*>(request.held_message.data()),
                  request.held_message.size())
            : absl::Span<const uint8_t>(request.memory.span());
    shared_.slots.HandOver(call);
  }
}

void RequestIntake::CheckParts(const CallRequest& request) {
  const PartSums& stated = request.stated_sums;
  const PartSums& found = request.read_sums;
  if (request.message_bytes > 0 && found.message != stated.message) {
    connection_.PartDamaged("the message of a request", request.message_bytes,
                            stated.message, found.message);
  } else if (request.attachment_bytes > 0 &&
             found.attachment != stated.attachment) {
    connection_.PartDamaged("the attachment of a request",
                            request.attachment_bytes, stated.attachment,
                            found.attachment);
  }
}

void RequestIntake::StopWaiting(ServerCall* call) {
  ServerLines& lines = shared_.lines;
  if (lines.turns.Contains(call)) return lines.turns.Remove(call);
  lines.memory.Remove(call);
  // Calls that wait for memory for their reply stand in the same line, and
  // count among no READs.
  const bool reads = call->state() == ServerCallState::kAwaitsMemory;
  if (reads && call->request().is_large()) --large_reads_;
}

}  // namespace verbena::transport
