// ServerStreams: long messages, beside the DATA.

#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/server/server_streams.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {

ServerCall* ServerStreams::FindOpen(uint32_t call_id) {
  ServerCall* const call = shared_.slots.Find(call_id);
  const bool open = call->id() == call_id && call->stream() != nullptr &&
                    call->stream()->is_open();
  return open ? call : nullptr;
}

// --- What the client sends ---

// Checks the places before it looks for the call: memory outside of the arenas
// costs the client its connection even if nobody wants the message.
void ServerStreams::HandleLongMessage(absl::Span<const uint8_t> frame) {
  const auto header = LoadHeader<LongMessageHeader>(frame);
  IncomingMessage message;
  message.state = IncomingMessage::State::kTold;
  if ((header.frame.flags & kFlagMessageInArena) != 0) {
    message.message_bytes = header.message_bytes;
    if (!shared_.arenas.Find(header.message_arena, header.message_offset,
                             header.message_bytes, &message.message_source)) {
      return connection_.ProtocolError(
          "it named a message of a stream outside its arenas");
    }
  }
  if ((header.frame.flags & kFlagAttachmentInArena) != 0) {
    message.attachment_bytes = header.attachment_bytes;
    if (!shared_.arenas.Find(header.attachment_arena, header.attachment_offset,
                             header.attachment_bytes,
                             &message.attachment_source)) {
      return connection_.ProtocolError(
          "it named an attachment of a stream outside its arenas");
    }
  }
  if (connection_.keeps_streams_in_frames()) {
    return connection_.ProtocolError(
        "it sent a MESSAGE where all of a stream goes in DATA");
  }
  ServerCall* const call = Find(header.frame.call_id);
  // When the handler has returned, nobody reads it.
  if (call == nullptr || call->state() == ServerCallState::kDraining) return;
  const char* const error = call->stream()->OnLongMessage(
      {header.message_bytes, header.attachment_bytes}, FrameBody(frame),
      std::move(message));
  if (error != nullptr) return connection_.ProtocolError(error);
  if (!call->stream()->failure().ok()) return Fail(call);
  line_.Serve(call->stream());
}

// Allocates for both parts together, behind the calls that wait for memory. A
// stream that finds none is served again by ServeReadWaiters().
bool ServerStreams::StartRead(uint32_t call_id, uint64_t number,
                              IncomingMessage* message) {
  ServerCall* const call = FindOpen(call_id);
  // Nobody reads it any more, or it will be tried again.
  if (call->state() == ServerCallState::kDraining ||
      call->stream_part().read_waits) {
    return false;
  }
  LongMessage read;
  // Nobody reads the text, and a text would be allocated.
  absl::Status status = absl::UnavailableError("");
  if (shared_.lines.memory.empty()) {
    status = shared_.memory.AllocateParts(message->message_bytes,
                                          message->attachment_bytes,
                                          &read.message, &read.attachment);
  }
  if (absl::IsUnavailable(status)) {
    call->stream_part().read_waits = true;
    read_waiters_.push_back(call_id);
    return false;
  }
  // There will never be memory for it, so the stream cannot go on.
  if (!status.ok()) {
    call->stream()->Fail(status);
    Fail(call);
    return false;
  }
  if (!read.message.empty()) {
    StartTransfer(call, IBV_WR_RDMA_READ, read.message, message->message_source,
                  number);
    message->parts.message = std::move(read.message);
    ++message->reads_left;
  }
  if (!read.attachment.empty()) {
    StartTransfer(call, IBV_WR_RDMA_READ, read.attachment,
                  message->attachment_source, number);
    message->parts.attachment = std::move(read.attachment);
    ++message->reads_left;
  }
  return true;
}

void ServerStreams::ServeReadWaiters() {
  // Taken out first, because Serve() may add them again.
  const std::vector<uint32_t> waiters = std::exchange(read_waiters_, {});
  for (const uint32_t call_id : waiters) {
    ServerCall* const call = FindOpen(call_id);
    // The stream has ended meanwhile.
    if (call == nullptr) continue;
    call->stream_part().read_waits = false;
    line_.Serve(call->stream());
  }
}

// --- Both ways ---

void ServerStreams::StartTransfer(ServerCall* call, ibv_wr_opcode opcode,
                                  const Buffer& local,
                                  const RemoteArenas::RemoteRange& remote,
                                  uint64_t number) {
  ++call->stream_part().transfers;
  BulkTransfer* const transfer =
      shared_.transfers.Prepare(opcode, local, remote, call);
  transfer->of_stream = true;
  transfer->number = number;
  // The stream may end, and the call, before the device is done.
  transfer->hold = local.Share();
  shared_.transfers.Start(transfer);
  connection_.NoteWaiting();
}

void ServerStreams::OnWritePosted(ServerCall* call) {
  CallStream& stream = call->stream_part();
  --stream.transfers;
  if (--stream.writes_left > 0) return;
  stream.is_written = true;
  // SendWaiting() goes round once more, because the MESSAGE may follow now.
  write_posted_ = true;
  if (stream.messages->is_open()) line_.Serve(stream.messages.get());
}

void ServerStreams::OnReadDone(ServerCall* call, uint64_t number) {
  --call->stream_part().transfers;
  if (call->stream()->is_open()) call->stream()->OnRead(number);
  // A RESPONSE may have waited for this READ: see CallStream::drained().
  connection_.NoteWaiting();
}

// --- What goes to the client ---

// Keeps the lease for the next long message. A LEASE of no bytes says that none
// is to come, so that the stream need not wait.
void ServerStreams::HandleLease(const LeaseHeader& header, ServerCall* call) {
  // The LEASE may have crossed the RESPONSE.
  if (FindOpen(header.frame.call_id) == nullptr) return;
  CallStream& stream = call->stream_part();
  stream.lease_to_come = header.bytes > 0;
  if (header.bytes > 0) {
    CallStream::Lease lease = {header.arena, header.offset, header.bytes, {}};
    if (!shared_.arenas.Find(header.arena, header.offset, header.bytes,
                             &lease.range)) {
      return connection_.ProtocolError(
          "it lent memory for a stream outside its arenas");
    }
    if (header.rkey != 0 || stream.leases.size() == kStreamLongMessages) {
      return connection_.ProtocolError(
          "it lent a stream too many leases, or one with a key");
    }
    stream.leases.push_back(lease);
  }
  line_.Serve(stream.messages.get());
}

// Takes a message through three turns: its WRITEs are started, then all are
// posted, then its MESSAGE is sent. The queue pair keeps that order.
LongMessageCarrier::Outcome ServerStreams::SendLong(uint32_t call_id,
                                                    LongMessage* message) {
  ServerCall* const call = FindOpen(call_id);
  const uint64_t room = connection_.SendRoom() - sizeof(LongMessageHeader);
  const Placement place =
      PlaceParts(room, message->message.size(), message->attachment.size());
  if (call->stream_part().is_written) return SendWritten(call, *message, place);
  if (call->stream_part().writes_left > 0) return Outcome::kWait;
  const BufferPool& pool = connection_.memory().pool();
  if (connection_.keeps_streams_in_frames() || place.all_inline() ||
      (!place.message_inline && !pool.Owns(message->message)) ||
      (!place.attachment_inline && !pool.Owns(message->attachment))) {
    return Outcome::kInFrames;
  }
  return StartWrite(call, *message, place);
}

// Takes the first lease that is long enough. If all are too short, they go back
// one by one; if there is none, the client has said whether to wait.
LongMessageCarrier::Outcome ServerStreams::StartWrite(
    ServerCall* call, const LongMessage& message, Placement place) {
  CallStream& stream = call->stream_part();
  std::vector<CallStream::Lease>& leases = stream.leases;
  if (leases.empty()) {
    return stream.lease_to_come ? Outcome::kWait : Outcome::kInFrames;
  }
  const uint64_t message_bytes =
      place.message_inline ? 0 : message.message.size();
  const uint64_t attachment_bytes =
      place.attachment_inline ? 0 : message.attachment.size();
  const auto found = std::find_if(
      leases.begin(), leases.end(),
      [needed = LeaseBytes(message_bytes, attachment_bytes)](
          const CallStream::Lease& lease) { return lease.bytes >= needed; });
  if (found == leases.end()) return ReturnLease(call);
  stream.writing_to = *found;
  leases.erase(found);
  RemoteArenas::RemoteRange target = stream.writing_to.range;
  stream.writes_left = message_bytes > 0 && attachment_bytes > 0 ? 2 : 1;
  if (message_bytes > 0) {
    StartTransfer(call, IBV_WR_RDMA_WRITE, message.message, target,
                  /*number=*/0);
    target.address += AlignPart(message_bytes);
  }
  if (attachment_bytes > 0) {
    StartTransfer(call, IBV_WR_RDMA_WRITE, message.attachment, target,
                  /*number=*/0);
  }
  return Outcome::kWait;
}

LongMessageCarrier::Outcome ServerStreams::ReturnLease(ServerCall* call) {
  uint8_t* const out =
      connection_.BeginFrame(sizeof(LeaseHeader), /*spare_credits=*/0);
  if (out == nullptr) return Outcome::kBlocked;
  CallStream& stream = call->stream_part();
  const CallStream::Lease& lease = stream.leases.back();
  LeaseHeader header = {};
  header.frame = Connection::PlainHeader(FrameType::kLease, call->id());
  header.frame.header_bytes = sizeof(header);
  header.arena = lease.arena;
  header.offset = lease.offset;
  header.bytes = lease.bytes;
  std::memcpy(out, &header, sizeof(header));
  stream.leases.pop_back();
  // The message goes in frames: the client learns its length by that.
  if (stream.leases.empty()) stream.lease_to_come = false;
  connection_.Send(sizeof(header));
  return connection_.usable() ? Outcome::kOtherSent : Outcome::kSent;
}

LongMessageCarrier::Outcome ServerStreams::SendWritten(
    ServerCall* call, const LongMessage& message, Placement place) {
  const CallStream::Lease& lease = call->stream_part().writing_to;
  const ArenaPlace begin = {lease.arena, lease.offset};
  ArenaPlace attachment_at = begin;
  if (!place.message_inline) {
    // The attachment stands behind the message, as in the reply lease of
    // a call.
    attachment_at.offset +=
        static_cast<uint32_t>(AlignPart(message.message.size()));
  }
  if (!SendMessageFrame(connection_, call->id(), message, place, begin,
                        attachment_at)) {
    return Outcome::kBlocked;
  }
  call->stream_part().is_written = false;
  return Outcome::kSent;
}

}  // namespace verbena::transport
