// ServerCalls: replies that are more than a message, or have to wait.

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/base/optimization.h"
#include "transport/base/check.h"
#include "transport/server/server_calls.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {

void ServerCalls::Finish(ServerCall* call, ServerCall::Reply&& reply) {
  CHECK(call->state_ == State::kHandling);
  --handling_;
  call->ReleaseMessage();
  call->attachment_.Reset();
  call->reply_ = std::move(reply);
  if (!connection_.usable()) {
    FreeCall(call);
    return;
  }
  if (ABSL_PREDICT_FALSE(call->initial_due_)) initial_waiters_.Remove(call);
  absl::Status refusal = CheckReply(call->reply_);
  if (call->cancelled()) {
    refusal = absl::CancelledError("the client cancelled the call");
  }
  if (call->stream_ != nullptr) {
    const absl::Status& failure = call->stream_->failure();
    FinishStream(call, failure.ok() ? refusal : failure);
  } else if (!refusal.ok()) {
    Refuse(call, refusal);
  } else {
    SendReply(call);
  }
  connection_.SendWaitingSoon();
}

void ServerCalls::FinishStream(ServerCall* call, const absl::Status& failure) {
  if (!failure.ok()) {
    CloseStream(call);
    SetRefusal(call, failure);
  }
  if (IsDrained(*call)) return SendReply(call);
  call->state_ = State::kDraining;
  (call->initial_due_ ? initial_waiters_ : draining_).PushBack(call);
  NoteExpiry(*call);
}

void ServerCalls::FailDraining(ServerCall* call, const absl::Status& failure) {
  CloseStream(call);
  SetRefusal(call, failure);
  if (!IsDrained(*call)) {
    call->state_ = State::kDraining;
    return;
  }
  StopDraining(call);
  QueueFrame(call, State::kReplyQueued);
}

void ServerCalls::SendReply(ServerCall* call) {
  const ServerCall::Reply& reply = call->reply_;
  CHECK(reply.status.ok() ||
        (reply.message_bytes == 0 && reply.attachment.empty()))
      << "a call that fails has no message";
  call->reply_attachment_bytes_ =
      static_cast<uint32_t>(reply.attachment.size());
  // Metadata alone always fit.
  CHECK_LE(reply.metadata_bytes, kFrameMetadataBytes);
  const uint64_t room = RoomForReply() - reply.metadata_bytes;
  call->reply_place_ =
      PlaceParts(room, reply.message_bytes, reply.attachment.size());
  if (call->reply_place_.all_inline()) {
    QueueFrame(call, State::kReplyQueued);
  } else if (call->lease_bytes_ < LeaseNeeded(*call)) {
    if (frame_waiters_.empty() && !MetadataDue(*call) &&
        SendContinuedResponse(call)) {
      return;
    }
    // The call takes memory here only once there is memory at the client.
    // Otherwise replies could hold all of ours while they wait for a lease, and
    // requests that wait for ours all of the client's.
    QueueFrame(call, State::kPendingQueued);
  } else {
    AwaitReplyMemory(call);
  }
}

uint64_t ServerCalls::RoomForReply() const {
  return connection_.SendRoom() - sizeof(ResponseHeader);
}

void ServerCalls::HandleLease(absl::Span<const uint8_t> frame) {
  const LeaseHeader header = LoadHeader<LeaseHeader>(frame);
  ServerCall* const call = FindCall(header.frame.call_id);
  if (call == nullptr) return;
  if (call->streamed_ && call->call_id_ == header.frame.call_id) {
    return HandleStreamLease(header, call);
  }
  if (call->call_id_ != header.frame.call_id ||
      !std::exchange(call->lease_asked_, false)) {
    return connection_.ProtocolError("it sent a lease that was not asked for");
  }
  // The LEASE may have crossed the RESPONSE of a call that waited too long.
  if (call->state_ != State::kAwaitsLease) return;
  if (header.bytes < LeaseNeeded(*call)) {
    return connection_.ProtocolError("it sent a lease that is too short");
  }
  if (!arenas_.Find(header.arena, header.offset, header.bytes, &call->lease_)) {
    connection_.ProtocolError("it lent memory for a reply outside its arenas");
    return;
  }
  call->lease_bytes_ = header.bytes;
  call->lease_rkey_ = header.rkey;
  if (header.rkey != 0) call->lease_.rkey = header.rkey;
  StopAwaitingLease(call);
  AwaitReplyMemory(call);
}

absl::string_view ServerCalls::StatusText(
    const ServerCall::Reply& reply) const {
  if (reply.status.ok()) return {};
  return reply.status.message().substr(
      0, std::min<uint64_t>(kMaxStatusMessageBytes, RoomForReply()));
}

uint32_t ServerCalls::ResponseFrameBytes(const ServerCall* call) const {
  const ServerCall::Reply& reply = call->reply_;
  uint64_t bytes =
      sizeof(ResponseHeader) + StatusText(reply).size() + reply.metadata_bytes;
  const bool written = call->reply_written_;
  if (!written || call->reply_place_.message_inline) {
    bytes += reply.message_bytes;
  }
  if (!written || call->reply_place_.attachment_inline) {
    bytes += reply.attachment.size();
  }
  return static_cast<uint32_t>(bytes);
}

void ServerCalls::SendPending(ServerCall* call, uint8_t* out) {
  ResponsePendingHeader header = {};
  header.frame =
      Connection::PlainHeader(FrameType::kResponsePending, call->call_id_);
  header.frame.header_bytes = sizeof(header);
  const ServerCall::Reply& reply = call->reply_;
  if (!call->reply_place_.message_inline) {
    header.message_bytes = static_cast<uint32_t>(reply.message_bytes);
  }
  if (!call->reply_place_.attachment_inline) {
    header.attachment_bytes = call->reply_attachment_bytes_;
  }
  std::memcpy(out, &header, sizeof(header));
  call->state_ = State::kAwaitsLease;
  call->lease_asked_ = true;
  call->lease_asked_time_ = connection_.poller().now();
  lease_waiters_.PushBack(call);
  NoteExpiry(*call);
  connection_.Send(sizeof(header), std::exchange(call->lease_rkey_, 0));
}

void ServerCalls::SendResponse(ServerCall* call, uint8_t* out) {
  const uint32_t bytes = WriteResponse(call, out);
  const uint32_t lease_rkey = call->lease_rkey_;
  const PartSums parts = call->reply_written_ ? call->part_sums_ : PartSums();
  ReplyWriter* const writer = EndCall(call);
  connection_.Send(bytes, parts, lease_rkey);
  if (writer != nullptr) writer->OnReplyDone();
}

bool ServerCalls::SendContinuedResponse(ServerCall* call) {
  const uint32_t bytes = ResponseFrameBytes(call);  // With all of the reply.
  if (!connection_.CanSendContinued(bytes, /*spare_credits=*/0)) return false;
  call->reply_place_ = Placement();
  const Buffer frame = connection_.pool().AllocateOrPlain(bytes);
  WriteResponse(call, frame.data());
  const uint32_t lease_rkey = call->lease_rkey_;
  ReplyWriter* const writer = EndCall(call);
  connection_.SendContinued(frame.span(), lease_rkey);
  if (writer != nullptr) writer->OnReplyDone();
  return true;
}

ReplyWriter* ServerCalls::EndCall(ServerCall* call) {
  // The writer hears last: what it does may send something else.
  ReplyWriter* const writer = std::exchange(call->reply_.writer, nullptr);
  // The slot may be used again as soon as the client has the RESPONSE.
  FreeCall(call);
  return writer;
}

uint32_t ServerCalls::WriteResponse(ServerCall* call, uint8_t* out) {
  ServerCall::Reply& reply = call->reply_;
  const absl::string_view text = StatusText(reply);
  ResponseHeader header = {};
  header.frame = Connection::PlainHeader(FrameType::kResponse, call->call_id_);
  header.frame.header_bytes = sizeof(header);
  if (std::exchange(call->unprocessed_, false)) {
    header.frame.flags = kFlagUnprocessed;
  }
  header.code = static_cast<uint32_t>(reply.status.code());
  header.status_message_bytes = static_cast<uint16_t>(text.size());
  header.metadata_bytes = static_cast<uint16_t>(reply.metadata_bytes);
  header.message_bytes = static_cast<uint32_t>(reply.message_bytes);
  header.attachment_bytes = call->reply_attachment_bytes_;
  uint8_t* body = out + sizeof(header);
  if (!text.empty()) std::memcpy(body, text.data(), text.size());
  body += text.size();
  if (call->reply_written_ && !call->reply_place_.message_inline) {
    header.frame.flags |= kFlagMessageInArena;
    std::memcpy(body, call->metadata_.data(), call->metadata_.size());
    body += call->metadata_.size();
  } else {
    if (!reply.buffer.empty()) {
      std::memcpy(body, reply.buffer.data(),
                  reply.metadata_bytes + reply.message_bytes);
    } else if (reply.writer != nullptr) {
      reply.writer->WriteReply(body);
    }
    body += reply.metadata_bytes + reply.message_bytes;
  }
  if (call->reply_written_ && !call->reply_place_.attachment_inline) {
    header.frame.flags |= kFlagAttachmentInArena;
  } else if (!reply.attachment.empty()) {
    std::memcpy(body, reply.attachment.data(), reply.attachment.size());
    body += reply.attachment.size();
  }
  header.frame.body_bytes = static_cast<uint32_t>(body - out - sizeof(header));
  std::memcpy(out, &header, sizeof(header));
  return header.frame.header_bytes + header.frame.body_bytes;
}

}  // namespace verbena::transport
