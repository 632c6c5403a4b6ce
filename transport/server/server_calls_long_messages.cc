// ServerCalls: long messages of streams, beside their DATA.

#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/server/server_calls.h"
#include "transport/wire/frame_codec.h"
#include "transport/wire/placement.h"

namespace verbena::transport {

ServerCall* ServerCalls::OpenStreamOf(uint32_t call_id) {
  ServerCall* const call = calls_[call_id & 0xffff].get();
  const bool open = call->call_id_ == call_id && call->stream_ != nullptr &&
                    call->stream_->is_open();
  return open ? call : nullptr;
}

// --- What the client sends ---

void ServerCalls::HandleLongMessage(absl::Span<const uint8_t> frame) {
  const auto header = LoadHeader<LongMessageHeader>(frame);
  IncomingMessage message;
  message.state = IncomingMessage::State::kTold;
  if ((header.frame.flags & kFlagMessageInArena) != 0) {
    message.message_bytes = header.message_bytes;
    if (!arenas_.Find(header.message_arena, header.message_offset,
                      header.message_bytes, &message.message_source)) {
      return connection_.ProtocolError(
          "it named a message of a stream outside its arenas");
    }
  }
  if ((header.frame.flags & kFlagAttachmentInArena) != 0) {
    message.attachment_bytes = header.attachment_bytes;
    if (!arenas_.Find(header.attachment_arena, header.attachment_offset,
                      header.attachment_bytes, &message.attachment_source)) {
      return connection_.ProtocolError(
          "it named an attachment of a stream outside its arenas");
    }
  }
  if (connection_.expects_sums()) {
    return connection_.ProtocolError("it sent a MESSAGE without checksums");
  }
  ServerCall* const call = FindStream(header.frame.call_id);
  // When the handler has returned, nobody reads it.
  if (call == nullptr || call->state_ == State::kDraining) return;
  const char* const error = call->stream_->OnLongMessage(
      {header.message_bytes, header.attachment_bytes}, FrameBody(frame),
      std::move(message));
  if (error != nullptr) return connection_.ProtocolError(error);
  if (!call->stream_->failure().ok()) return FailStream(call);
  streams_.Serve(call->stream_.get());
}

bool ServerCalls::StartRead(uint32_t call_id, uint64_t number,
                            IncomingMessage* message) {
  ServerCall* const call = OpenStreamOf(call_id);
  // Nobody reads it any more, or it will be tried again.
  if (call->state_ == State::kDraining || call->read_waits_) return false;
  LongMessage read;
  absl::Status status = absl::UnavailableError("others have waited for longer");
  if (memory_waiters_.empty()) {
    status = AllocateParts(message->message_bytes, message->attachment_bytes,
                           &read.message, &read.attachment);
  }
  if (absl::IsUnavailable(status)) {
    call->read_waits_ = true;
    read_waiters_.push_back(call_id);
    return false;
  }
  if (!status.ok()) {
    call->stream_->Fail(status);
    FailStream(call);
    return false;
  }
  if (!read.message.empty()) {
    StartStreamTransfer(call, IBV_WR_RDMA_READ, read.message,
                        message->message_source, number);
    message->parts.message = std::move(read.message);
    ++message->reads_left;
  }
  if (!read.attachment.empty()) {
    StartStreamTransfer(call, IBV_WR_RDMA_READ, read.attachment,
                        message->attachment_source, number);
    message->parts.attachment = std::move(read.attachment);
    ++message->reads_left;
  }
  return true;
}

void ServerCalls::ServeReadWaiters() {
  const std::vector<uint32_t> waiters = std::exchange(read_waiters_, {});
  for (const uint32_t call_id : waiters) {
    ServerCall* const call = OpenStreamOf(call_id);
    if (call == nullptr) continue;
    call->read_waits_ = false;
    streams_.Serve(call->stream_.get());
  }
}

// --- Both ways ---

void ServerCalls::StartStreamTransfer(ServerCall* call, ibv_wr_opcode opcode,
                                      const Buffer& local,
                                      const RemoteArenas::RemoteRange& remote,
                                      uint64_t number) {
  ++call->stream_transfers_;
  BulkTransfer* const transfer = transfers_.Acquire();
  transfer->opcode = opcode;
  transfer->local = local.data();
  transfer->lkey = local.lkey();
  transfer->remote = remote;
  transfer->bytes = static_cast<uint32_t>(local.size());
  transfer->owner = call;
  transfer->of_stream = true;
  transfer->number = number;
  // The stream may end, and the call, before the device is done.
  transfer->hold = local.Share();
  NoteTransfer(transfer->bytes);
  transfers_.Start(transfer);
  connection_.NoteWaiting();
}

void ServerCalls::OnStreamWritePosted(ServerCall* call) {
  --call->stream_transfers_;
  if (--call->writes_left_ > 0) return;
  call->is_written_ = true;
  stream_write_posted_ = true;
  if (call->stream_->is_open()) streams_.Serve(call->stream_.get());
}

void ServerCalls::OnStreamTransferDone(BulkTransfer* transfer) {
  ServerCall* const call = static_cast<ServerCall*>(transfer->owner);
  const bool read = transfer->opcode == IBV_WR_RDMA_READ;
  const uint64_t number = transfer->number;
  NoteTransfer(-int64_t{transfer->bytes});
  transfers_.Release(transfer);
  // Else the call is gone.
  if (!read || !connection_.usable()) return;
  --call->stream_transfers_;
  if (call->stream_->is_open()) call->stream_->OnRead(number);
  connection_.NoteWaiting();
}

// --- What goes to the client ---

void ServerCalls::HandleStreamLease(const LeaseHeader& header,
                                    ServerCall* call) {
  // The LEASE may have crossed the RESPONSE.
  if (OpenStreamOf(header.frame.call_id) == nullptr) return;
  call->lease_to_come_ = header.bytes > 0;
  if (header.bytes > 0) {
    ServerCall::StreamLease lease = {
        header.arena, header.offset, header.bytes, {}};
    if (!arenas_.Find(header.arena, header.offset, header.bytes,
                      &lease.range)) {
      return connection_.ProtocolError(
          "it lent memory for a stream outside its arenas");
    }
    if (header.rkey != 0 ||
        call->stream_leases_.size() == kStreamLongMessages) {
      return connection_.ProtocolError(
          "it lent a stream too many leases, or one with a key");
    }
    call->stream_leases_.push_back(lease);
  }
  streams_.Serve(call->stream_.get());
}

LongMessageCarrier::Outcome ServerCalls::SendLong(uint32_t call_id,
                                                  LongMessage* message) {
  ServerCall* const call = OpenStreamOf(call_id);
  const uint64_t room = connection_.SendRoom() - sizeof(LongMessageHeader);
  const Placement place =
      PlaceParts(room, message->message.size(), message->attachment.size());
  if (call->is_written_) return SendWritten(call, *message, place);
  if (call->writes_left_ > 0) return Outcome::kWait;
  const BufferPool& pool = connection_.pool();
  if (connection_.expects_sums() || place.all_inline() ||
      (!place.message_inline && !pool.Owns(message->message)) ||
      (!place.attachment_inline && !pool.Owns(message->attachment))) {
    return Outcome::kInFrames;
  }
  return StartLongWrite(call, *message, place);
}

LongMessageCarrier::Outcome ServerCalls::StartLongWrite(
    ServerCall* call, const LongMessage& message, Placement place) {
  std::vector<ServerCall::StreamLease>& leases = call->stream_leases_;
  if (leases.empty()) {
    return call->lease_to_come_ ? Outcome::kWait : Outcome::kInFrames;
  }
  const uint64_t message_bytes =
      place.message_inline ? 0 : message.message.size();
  const uint64_t attachment_bytes =
      place.attachment_inline ? 0 : message.attachment.size();
  const auto found =
      std::find_if(leases.begin(), leases.end(),
                   [needed = LeaseBytes(message_bytes, attachment_bytes)](
                       const ServerCall::StreamLease& lease) {
                     return lease.bytes >= needed;
                   });
  if (found == leases.end()) return ReturnLease(call);
  call->writing_to_ = *found;
  leases.erase(found);
  RemoteArenas::RemoteRange target = call->writing_to_.range;
  call->writes_left_ = message_bytes > 0 && attachment_bytes > 0 ? 2 : 1;
  if (message_bytes > 0) {
    StartStreamTransfer(call, IBV_WR_RDMA_WRITE, message.message, target,
                        /*number=*/0);
    target.address += AlignPart(message_bytes);
  }
  if (attachment_bytes > 0) {
    StartStreamTransfer(call, IBV_WR_RDMA_WRITE, message.attachment, target,
                        /*number=*/0);
  }
  return Outcome::kWait;
}

LongMessageCarrier::Outcome ServerCalls::ReturnLease(ServerCall* call) {
  uint8_t* const out =
      connection_.BeginFrame(sizeof(LeaseHeader), /*spare_credits=*/0);
  if (out == nullptr) return Outcome::kBlocked;
  const ServerCall::StreamLease& lease = call->stream_leases_.back();
  LeaseHeader header = {};
  header.frame = Connection::PlainHeader(FrameType::kLease, call->call_id_);
  header.frame.header_bytes = sizeof(header);
  header.arena = lease.arena;
  header.offset = lease.offset;
  header.bytes = lease.bytes;
  std::memcpy(out, &header, sizeof(header));
  call->stream_leases_.pop_back();
  // The message goes in frames: the client learns its length by that.
  if (call->stream_leases_.empty()) call->lease_to_come_ = false;
  connection_.Send(sizeof(header));
  return connection_.usable() ? Outcome::kOtherSent : Outcome::kSent;
}

LongMessageCarrier::Outcome ServerCalls::SendWritten(ServerCall* call,
                                                     const LongMessage& message,
                                                     Placement place) {
  const ServerCall::StreamLease& lease = call->writing_to_;
  const ArenaPlace begin = {lease.arena, lease.offset};
  ArenaPlace attachment_at = begin;
  if (!place.message_inline) {
    attachment_at.offset +=
        static_cast<uint32_t>(AlignPart(message.message.size()));
  }
  if (!SendMessageFrame(connection_, call->call_id_, message, place, begin,
                        attachment_at)) {
    return Outcome::kBlocked;
  }
  call->is_written_ = false;
  return Outcome::kSent;
}

}  // namespace verbena::transport
