#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/base/check.h"
#include "transport/connection/server_session.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {
namespace {

// Whether it is a message and nothing else, all of it in one frame, and asks
// for no lease.
bool IsMessageAlone(const RequestHeader& header) {
  return ((header.frame.flags & kKnownFlags) | header.metadata_bytes |
          header.attachment_bytes) == 0;
}

}  // namespace

void ServerSession::HandleFrame(FrameType type,
                                absl::Span<const uint8_t> frame) {
  if (type == FrameType::kHello) {
    HandleHello(frame);
    return;
  }
  if (state() != ConnectionState::kOpen) {
    ProtocolError("it sent something before its HELLO");
    return;
  }
  if (__builtin_expect(assembly_.Concerns(frame), 0)) {
    HandlePart(frame);
    return;
  }
  switch (type) {
    case FrameType::kRequest:
      HandleRequest(frame, /*whole=*/nullptr);
      return;
    case FrameType::kLease:
      HandleLease(frame);
      return;
    case FrameType::kCancel:
      HandleCancel(frame);
      return;
    case FrameType::kArena:
      HandleArena(frame);
      return;
    default:
      ProtocolError("a client sent a frame that only servers send");
  }
}

ServerCall* ServerSession::FindCall(uint32_t call_id) {
  const uint32_t slot = call_id & 0xffff;
  if (slot >= kMaxOpenCalls) {
    ProtocolError("it used a call slot beyond the limit");
    return nullptr;
  }
  if (calls_[slot] == nullptr) MakeCallSlow(slot);
  return calls_[slot].get();
}

void ServerSession::HandlePart(absl::Span<const uint8_t> frame) {
  if (const char* error = assembly_.Add(frame, device().pool())) {
    ProtocolError(error);
  } else if (assembly_.complete()) {
    Buffer whole = assembly_.Take();
    if (LoadHeader<FrameHeader>(whole.span()).type == FrameType::kRequest) {
      HandleRequest(whole.span(), &whole);
    } else {
      ProtocolError("a client sent a frame that only servers send");
    }
  }
}

void ServerSession::HandleRequest(absl::Span<const uint8_t> frame,
                                  Buffer* whole) {
  const RequestHeader header = LoadHeader<RequestHeader>(frame);
  ServerCall* const call = FindCall(header.frame.call_id);
  if (call == nullptr) return;
  if (call->state_ != State::kFree) {
    ProtocolError("it began a call in a slot that is in use");
    return;
  }
  if (whole == nullptr && IsMessageAlone(header) &&
      header.message_bytes <= options().max_receive_message_bytes) {
    BeginCall(header, call);
    call->lease_bytes_ = 0;
    call->metadata_.clear();
    call->message_ = frame.subspan(sizeof(header));
    Dispatch(call);
    return;
  }
  if (!FindRanges(header, call)) return;
  const RequestBody body = SplitRequest(frame);
  BeginCall(header, call);
  call->metadata_.assign(reinterpret_cast<const char*>(body.metadata.data()),
                         body.metadata.size());
  const bool message_in_arena = header.frame.flags & kFlagMessageInArena;
  const bool attachment_in_arena = header.frame.flags & kFlagAttachmentInArena;
  const uint64_t bytes =
      uint64_t{header.message_bytes} + header.attachment_bytes;
  if (bytes > options().max_receive_message_bytes) {
    Refuse(call, TooLargeRequest(bytes));
    return;
  }
  if (header.attachment_bytes > 0 && !attachment_in_arena) {
    TakeInlineAttachment(call, body.attachment, whole);
  }
  if (!message_in_arena && !attachment_in_arena) {
    call->message_ = body.message;
    if (whole != nullptr) {
      call->request_ = std::move(*whole);
      call->owns_message_ = true;
    }
    Dispatch(call);
    return;
  }
  if (!message_in_arena) HoldMessage(call, body.message);
  call->request_bytes_ = message_in_arena ? header.message_bytes : 0;
  call->attachment_bytes_ = attachment_in_arena ? header.attachment_bytes : 0;
  call->state_ = State::kAwaitsMemory;
  if (IsLargeRead(*call) &&
      (large_reads_ == kLargeReadsMax || !turn_waiters_.empty())) {
    turn_waiters_.PushBack(call);
  } else {
    AwaitRequest(call);
  }
}

void ServerSession::BeginCall(const RequestHeader& header, ServerCall* call) {
  ++open_calls_;
  call->call_id_ = header.frame.call_id;
  call->method_id_ = header.method_id;
  call->deadline_ = absl::InfiniteFuture();
  if (header.timeout_us != kNoTimeout) {
    // So that it is at most kNowAgeMax before the client's own.
    poller().RefreshNow();
    call->deadline_ = poller().now() + absl::Microseconds(header.timeout_us);
  }
  call->cancelled_.store(false, std::memory_order_relaxed);
  call->reply_written_ = false;
  call->reply_attachment_bytes_ = 0;
}

void ServerSession::TakeInlineAttachment(ServerCall* call,
                                         absl::Span<const uint8_t> attachment,
                                         const Buffer* whole) {
  if (whole == nullptr) {
    call->attachment_ = call->AllocateAttachment(attachment.size());
    std::memcpy(call->attachment_.data(), attachment.data(), attachment.size());
  } else {
    call->attachment_ = whole->Share();
    call->attachment_.Narrow(whole->size() - attachment.size(),
                             attachment.size());
  }
}

void ServerSession::HoldMessage(ServerCall* call,
                                absl::Span<const uint8_t> message) {
  call->held_message_.assign(reinterpret_cast<const char*>(message.data()),
                             message.size());
  call->owns_message_ = true;
}

bool ServerSession::FindRanges(const RequestHeader& header, ServerCall* call) {
  call->lease_bytes_ = 0;
  if ((header.frame.flags & kFlagReplyLease) != 0) {
    if (!arenas_.Find(header.reply_arena, header.reply_offset,
                      header.reply_bytes, &call->lease_)) {
      ProtocolError("it lent memory for a reply outside its arenas");
      return false;
    }
    call->lease_bytes_ = header.reply_bytes;
  }
  if ((header.frame.flags & kFlagMessageInArena) != 0 &&
      !arenas_.Find(header.message_arena, header.message_offset,
                    header.message_bytes, &call->request_source_)) {
    ProtocolError("it named a request outside its arenas");
    return false;
  }
  if ((header.frame.flags & kFlagAttachmentInArena) != 0 &&
      !arenas_.Find(header.attachment_arena, header.attachment_offset,
                    header.attachment_bytes, &call->attachment_source_)) {
    ProtocolError("it named an attachment outside its arenas");
    return false;
  }
  return true;
}

void ServerSession::Dispatch(ServerCall* call) {
  call->state_ = State::kHandling;
  ++handling_;
  handler_.OnCall(call);
}

void ServerSession::Finish(ServerCall* call, ServerCall::Reply&& reply) {
  CHECK(call->state_ == State::kHandling);
  --handling_;
  call->ReleaseMessage();
  call->attachment_.Reset();
  call->reply_ = std::move(reply);
  if (!usable()) {
    FreeCall(call);
    return;
  }
  const absl::Status refusal = CheckReply(call->reply_);
  if (call->cancelled()) {
    Refuse(call, absl::CancelledError("the client cancelled the call"));
  } else if (!refusal.ok()) {
    Refuse(call, refusal);
  } else {
    SendReply(call);
  }
  PumpSoon();
}

void ServerSession::SendReply(ServerCall* call) {
  const ServerCall::Reply& reply = call->reply_;
  CHECK(reply.status.ok() ||
        (reply.message_bytes == 0 && reply.attachment.empty()))
      << "a call that fails has no message";
  call->reply_attachment_bytes_ =
      static_cast<uint32_t>(reply.attachment.size());
  // Metadata alone always fit.
  const uint64_t room = RoomForReply() - reply.metadata_bytes;
  call->reply_place_ =
      PlaceParts(room, reply.message_bytes, reply.attachment.size());
  if (call->reply_place_.all_inline()) {
    QueueFrame(call, State::kReplyQueued);
  } else if (call->lease_bytes_ < LeaseNeeded(*call)) {
    if (frame_waiters_.empty() && SendContinuedResponse(call)) return;
    // It takes memory here only once there is memory at the client: else
    // replies could hold all of ours while they wait for a lease, and requests
    // that wait for ours all of the client's.
    QueueFrame(call, State::kPendingQueued);
  } else {
    AwaitReplyMemory(call);
  }
}

uint64_t ServerSession::RoomForReply() const {
  return SendRoom() - sizeof(ResponseHeader);
}

void ServerSession::HandleLease(absl::Span<const uint8_t> frame) {
  const LeaseHeader header = LoadHeader<LeaseHeader>(frame);
  ServerCall* const call = FindCall(header.frame.call_id);
  if (call == nullptr) return;
  if (call->state_ != State::kAwaitsLease ||
      call->call_id_ != header.frame.call_id ||
      header.bytes < LeaseNeeded(*call)) {
    ProtocolError("it sent a lease that was not asked for, or too short a one");
    return;
  }
  if (!arenas_.Find(header.arena, header.offset, header.bytes, &call->lease_)) {
    ProtocolError("it lent memory for a reply outside its arenas");
    return;
  }
  call->lease_bytes_ = header.bytes;
  AwaitReplyMemory(call);
}

void ServerSession::QueueFrame(ServerCall* call, State state) {
  call->state_ = state;
  if (!frame_waiters_.empty() || !SendQueued(call)) {
    frame_waiters_.PushBack(call);
  }
}

bool ServerSession::SendQueued(ServerCall* call) {
  const bool pending = call->state_ == State::kPendingQueued;
  uint8_t* const out = BeginFrame(
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

absl::string_view ServerSession::StatusText(
    const ServerCall::Reply& reply) const {
  if (reply.status.ok()) return {};
  return reply.status.message().substr(
      0, std::min<uint64_t>(kMaxStatusMessageBytes, RoomForReply()));
}

uint32_t ServerSession::ResponseFrameBytes(const ServerCall* call) const {
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

void ServerSession::SendPending(ServerCall* call, uint8_t* out) {
  ResponsePendingHeader header = {};
  header.frame = PlainHeader(FrameType::kResponsePending, call->call_id_);
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
  Send(sizeof(header), /*signalled=*/false);
  if (usable() && call->cancelled()) {
    Refuse(call, absl::CancelledError("the client cancelled the call"));
  }
}

void ServerSession::SendResponse(ServerCall* call, uint8_t* out) {
  const uint32_t bytes = WriteResponse(call, out);
  ReplyWriter* const writer = EndCall(call);
  Send(bytes, /*signalled=*/false);
  if (writer != nullptr) writer->OnReplyDone();
}

bool ServerSession::SendContinuedResponse(ServerCall* call) {
  const uint32_t bytes = ResponseFrameBytes(call);  // With all of the reply.
  if (!CanSendContinued(bytes, /*spare_credits=*/0)) return false;
  call->reply_place_ = Placement();
  const Buffer frame = device().pool().AllocateOrPlain(bytes);
  WriteResponse(call, frame.data());
  ReplyWriter* const writer = EndCall(call);
  SendContinued(frame.span());
  if (writer != nullptr) writer->OnReplyDone();
  return true;
}

ReplyWriter* ServerSession::EndCall(ServerCall* call) {
  // The writer hears last: what it does may send something else.
  ReplyWriter* const writer = std::exchange(call->reply_.writer, nullptr);
  // The slot may be used again as soon as the client has the RESPONSE.
  FreeCall(call);
  return writer;
}

uint32_t ServerSession::WriteResponse(ServerCall* call, uint8_t* out) {
  ServerCall::Reply& reply = call->reply_;
  const absl::string_view text = StatusText(reply);
  ResponseHeader header = {};
  header.frame = PlainHeader(FrameType::kResponse, call->call_id_);
  header.frame.header_bytes = sizeof(header);
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

void ServerSession::Pump() {
  if (welcome_due_ && usable()) SendWelcome();
  // Taken out before they are tried: sending may lose the connection, and that
  // clears the queues.
  while (!frame_waiters_.empty() && usable()) {
    ServerCall* const call = frame_waiters_.front();
    frame_waiters_.Remove(call);
    if (SendQueued(call)) continue;
    frame_waiters_.PushFront(call);
    break;
  }
  while (!turn_waiters_.empty() && large_reads_ < kLargeReadsMax) {
    ServerCall* const call = turn_waiters_.front();
    turn_waiters_.Remove(call);
    AwaitRequest(call);
  }
  while (!memory_waiters_.empty() && usable()) {
    ServerCall* const call = memory_waiters_.front();
    memory_waiters_.Remove(call);
    const bool moved = call->state_ == State::kAwaitsMemory ? StartReads(call)
                                                            : PlaceReply(call);
    if (moved) continue;
    memory_waiters_.PushFront(call);
    break;
  }
  if (!usable()) return;
  const absl::Status status =
      transfers_.Pump(send_queue(), [this](BulkTransfer* transfer) {
        if (transfer->opcode != IBV_WR_RDMA_WRITE) return;
        // The queue pair keeps the order: the RESPONSE arrives after the data.
        ServerCall* const call = static_cast<ServerCall*>(transfer->owner);
        if (--call->transfers_left_ > 0) return;
        call->reply_written_ = true;
        QueueFrame(call, State::kReplyQueued);
      });
  if (!status.ok()) Close(status);
}

}  // namespace verbena::transport
