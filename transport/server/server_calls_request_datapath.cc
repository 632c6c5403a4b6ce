// ServerCalls: requests that are more than a message in a frame.

#include <cstring>
#include <utility>

#include "transport/server/server_calls.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {

void ServerCalls::HandleRequest(absl::Span<const uint8_t> frame,
                                Buffer* whole) {
  const auto header = LoadHeader<RequestHeader>(frame);
  if (intake_ == Intake::kForbidden) {
    return connection_.ProtocolError("it began a call after its GOAWAY");
  }
  ServerCall* const call = FindFreeCall(header.frame.call_id);
  if (call == nullptr) return;
  const RequestBody body = SplitRequest(frame);
  if (!FindRanges(header, body.lease_rkey, call) ||
      !TakeMetadata(header.frame.call_id, body.metadata, call)) {
    return;
  }
  BeginCall(header, call);
  if (!takes_calls()) return RefuseUnprocessed(call);
  const bool message_in_arena = header.frame.flags & kFlagMessageInArena;
  const bool attachment_in_arena = header.frame.flags & kFlagAttachmentInArena;
  const uint64_t bytes =
      uint64_t{header.message_bytes} + header.attachment_bytes;
  if (bytes > connection_.options().max_receive_message_bytes) {
    Refuse(call, TooLargeRequest(bytes));
    return;
  }
  if (header.attachment_bytes > 0 && !attachment_in_arena) {
    TakeInlineAttachment(call, body.attachment, whole);
  }
  if ((header.frame.flags & kFlagStream) != 0) {
    if (HasAllStreams()) return Refuse(call, TooManyStreams());
    OpenStream(call);
  }
  if (!message_in_arena && !attachment_in_arena) {
    call->message_ = body.message;
    if (whole != nullptr) {
      call->request_ = std::move(*whole);
      call->owns_message_ = true;
    }
    HandOver(call);
    return;
  }
  if (!message_in_arena) HoldMessage(call, body.message);
  call->request_bytes_ = message_in_arena ? header.message_bytes : 0;
  call->attachment_bytes_ = attachment_in_arena ? header.attachment_bytes : 0;
  call->stated_sums_ = connection_.received_sums();
  call->state_ = State::kAwaitsMemory;
  if (IsLargeRead(*call) &&
      (large_reads_ == kLargeReadsMax || !turn_waiters_.empty())) {
    turn_waiters_.PushBack(call);
    NoteExpiry(*call);
    connection_.NoteWaiting();
  } else {
    AwaitRequest(call);
  }
}

void ServerCalls::TakeInlineAttachment(ServerCall* call,
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

void ServerCalls::HoldMessage(ServerCall* call,
                              absl::Span<const uint8_t> message) {
  call->held_message_.assign(reinterpret_cast<const char*>(message.data()),
                             message.size());
  call->owns_message_ = true;
}

bool ServerCalls::FindRanges(const RequestHeader& header, uint32_t lease_rkey,
                             ServerCall* call) {
  call->lease_bytes_ = 0;
  call->lease_rkey_ = lease_rkey;
  if ((header.frame.flags & kFlagReplyLease) != 0) {
    if (!arenas_.Find(header.reply_arena, header.reply_offset,
                      header.reply_bytes, &call->lease_)) {
      connection_.ProtocolError(
          "it lent memory for a reply outside its arenas");
      return false;
    }
    call->lease_bytes_ = header.reply_bytes;
    if (lease_rkey != 0) call->lease_.rkey = lease_rkey;
  }
  if ((header.frame.flags & kFlagMessageInArena) != 0 &&
      !arenas_.Find(header.message_arena, header.message_offset,
                    header.message_bytes, &call->request_source_)) {
    connection_.ProtocolError("it named a request outside its arenas");
    return false;
  }
  if ((header.frame.flags & kFlagAttachmentInArena) != 0 &&
      !arenas_.Find(header.attachment_arena, header.attachment_offset,
                    header.attachment_bytes, &call->attachment_source_)) {
    connection_.ProtocolError("it named an attachment outside its arenas");
    return false;
  }
  return true;
}

void ServerCalls::HandlePart(absl::Span<const uint8_t> frame) {
  if (const char* error = assembly_.Add(frame, &connection_.pool())) {
    connection_.ProtocolError(error);
  } else if (assembly_.complete()) {
    Buffer whole = assembly_.Take();
    if (LoadHeader<FrameHeader>(whole.span()).type == FrameType::kRequest) {
      HandleRequest(whole.span(), &whole);
    } else {
      connection_.ProtocolError("a client sent a frame that only servers send");
    }
  }
}

}  // namespace verbena::transport
