// ReplySender: replies with parts that are WRITTEN into a lease.

#include <cstring>
#include <utility>

#include "transport/base/check.h"
#include "transport/server/reply_sender.h"
#include "transport/wire/sealed_part.h"

namespace verbena::transport {

// Checks that the lease was asked for, is long enough, and lies in the client's
// arenas, before the reply waits for memory of ours.
void ReplySender::HandleLease(const LeaseHeader& header, ServerCall* call) {
  CallReply& reply = call->reply();
  if (call->id() != header.frame.call_id ||
      !std::exchange(reply.lease_asked, false)) {
    return connection_.ProtocolError("it sent a lease that was not asked for");
  }
  // The LEASE may have crossed the RESPONSE of a call that waited too long.
  if (call->state() != ServerCallState::kAwaitsLease) return;
  if (header.bytes < reply.LeaseNeeded(seals())) {
    return connection_.ProtocolError("it sent a lease that is too short");
  }
  if (!shared_.arenas.Find(header.arena, header.offset, header.bytes,
                           &reply.lease)) {
    return connection_.ProtocolError(kLeaseOutsideArenas);
  }
  reply.lease_bytes = header.bytes;
  reply.lease_rkey = header.rkey;
  // A lease with a window is written under the window's key: that of the arena
  // allows no writing.
  if (header.rkey != 0) reply.lease.rkey = header.rkey;
  shared_.lines.StopAwaitingLease(call);
  AwaitMemory(call);
}

void ReplySender::AwaitMemory(ServerCall* call) {
  call->Transition(ServerCallState::kAwaitsReplyMemory);
  // First come, first served: no call overtakes those that wait for memory.
  if (!shared_.lines.memory.empty() || !PlaceReply(call)) {
    shared_.lines.AwaitMemory(call);
  }
  connection_.NoteWaiting();
}

// Allocates for both parts together, all or nothing, then fills them and starts
// the WRITEs. Nothing is allocated for a part that lies in the pool already.
bool ReplySender::PlaceReply(ServerCall* call) {
  if (seals()) return PlaceSealed(call);
  ServerReply& content = call->reply().content;
  const Placement place = call->reply().place;
  // Bytes in memory of ours are WRITTEN from where they are.
  const bool copy = !place.attachment_inline &&
                    !connection_.memory().pool().Owns(content.attachment);
  const bool write = !place.message_inline && content.buffer.empty();
  Buffer message;
  Buffer attachment;
  const absl::Status status = shared_.memory.AllocateParts(
      write ? content.metadata_bytes + content.message_bytes : 0,
      copy ? content.attachment.size() : 0, &message, &attachment);
  // Buffers that come back will do: the call waits.
  if (absl::IsUnavailable(status)) return false;
  if (!status.ok()) {
    Refuse(call, status);
    return true;
  }
  if (write) {
    CHECK(content.writer != nullptr) << "a reply needs a buffer or a writer";
    content.writer->WriteReply(message.data());
    content.buffer = std::move(message);
  }
  if (copy) {
    std::memcpy(attachment.data(), content.attachment.data(),
                attachment.size());
    content.attachment = std::move(attachment);
  }
  StartWrites(call);
  return true;
}

// Allocates for the sealed parts in the same way. The parts themselves are
// sealed from where they are, or else are written to where they are sealed.
bool ReplySender::PlaceSealed(ServerCall* call) {
  CallReply& reply = call->reply();
  ServerReply& content = reply.content;
  const bool write = !reply.place.message_inline && content.buffer.empty();
  Buffer message;
  Buffer attachment;
  const absl::Status status = shared_.memory.AllocateParts(
      reply.place.message_inline ? 0
                                 : (write ? content.metadata_bytes : 0) +
                                       SealedReplyBytes(content.message_bytes),
      reply.place.attachment_inline
          ? 0
          : SealedReplyBytes(content.attachment.size()),
      &message, &attachment);
  // As in PlaceReply().
  if (absl::IsUnavailable(status)) return false;
  if (!status.ok()) {
    Refuse(call, status);
    return true;
  }
  if (write) {
    CHECK(content.writer != nullptr) << "a reply needs a buffer or a writer";
    content.writer->WriteReply(message.data());
    content.buffer = message.Share();
    message.Narrow(content.metadata_bytes,
                   message.size() - content.metadata_bytes);
  }
  reply.sealed_message = std::move(message);
  reply.sealed_attachment = std::move(attachment);
  StartWrites(call);
  return true;
}

// WRITEs the message to the start of the lease and the attachment behind it,
// where frame.h has the client look for them.
void ReplySender::StartWrites(ServerCall* call) {
  call->Transition(ServerCallState::kWriting);
  CallReply& reply = call->reply();
  ServerReply& content = reply.content;
  reply.writes_left = 0;
  reply.written_sums = {};
  // The numbers of the attachment's chunks follow those of the message's.
  reply.first_chunk = seals() ? connection_.TakeChunks(0) : 0;
  if (!reply.place.message_inline) {
    if (content.writer != nullptr) {
      std::exchange(content.writer, nullptr)->OnReplyDone();
    }
    // The metadata go into the RESPONSE, which may be posted after the transfer
    // has ended.
    reply.metadata.assign(reinterpret_cast<const char*>(content.buffer.data()),
                          content.metadata_bytes);
    content.buffer.Narrow(content.metadata_bytes, content.message_bytes);
    StartWrite(call, std::move(content.buffer), 0, &reply.written_sums.message,
               &reply.sealed_message);
  }
  if (!reply.place.attachment_inline) {
    const uint64_t start =
        reply.place.message_inline
            ? 0
            : AlignPart(ReplyLeaseBytes(seals(), content.message_bytes, 0));
    StartWrite(call, std::move(content.attachment), start,
               &reply.written_sums.attachment, &reply.sealed_attachment);
  }
}

void ReplySender::StartWrite(ServerCall* call, Buffer source,
                             uint64_t lease_offset, uint32_t* sum,
                             Buffer* sealed) {
  ++call->reply().writes_left;
  RemoteArenas::RemoteRange target = call->reply().lease;
  target.address += lease_offset;
  BulkTransfer* const transfer = shared_.transfers.Prepare(
      IBV_WR_RDMA_WRITE, seals() ? *sealed : source, target, call);
  if (connection_.expects_sums()) transfer->sum = sum;
  // The call may be over before the device is done with the memory, because the
  // RESPONSE goes as soon as the WRITE is posted.
  if (seals()) {
    transfer->seal = PartSeal(
        connection_.sealer(), connection_.TakeChunks(SealChunks(source.size())),
        source.span(), sealed->data(), sealed->data() + source.size());
    transfer->hold = std::move(*sealed);
    transfer->plain = std::move(source);
  } else {
    transfer->hold = std::move(source);
  }
  shared_.transfers.Start(transfer);
  connection_.NoteWaiting();
}

void ReplySender::OnWritePosted(ServerCall* call) {
  CallReply& reply = call->reply();
  if (--reply.writes_left > 0) return;
  // The queue pair keeps the order: the RESPONSE arrives after the data.
  reply.written = true;
  QueueFrame(call, ServerCallState::kReplyQueued);
}

}  // namespace verbena::transport
