#include <cstring>
#include <utility>

#include "absl/base/optimization.h"
#include "transport/server/request_intake.h"
#include "transport/wire/frame_codec.h"
#include "transport/wire/sealed_part.h"

namespace verbena::transport {

// Hands the message over where it lies in the receive buffer, so that a small
// call takes nothing but its slot.
void RequestIntake::HandlePlain(absl::Span<const uint8_t> frame) {
  const auto& header = HeaderIn<RequestHeader>(frame);
  if (ABSL_PREDICT_FALSE(header.message_bytes >
                             connection_.options().max_receive_message_bytes ||
                         !takes_calls())) {
    return Handle(frame, /*whole=*/nullptr);  // Which refuses it.
  }
  ServerCall* const call = shared_.slots.FindFree(header.frame.call_id);
  if (ABSL_PREDICT_FALSE(call == nullptr)) return;
  // They have come ahead of the REQUEST, or are left from the slot's last call.
  if (ABSL_PREDICT_FALSE(!call->metadata().empty()) &&
      !metadata_.Take(header.frame.call_id, /*inline_metadata=*/{}, call)) {
    return;
  }
  Begin(header, call);
  // The slot's last call may have had a lease.
  call->reply().lease_bytes = 0;
  call->reply().lease_rkey = 0;
  call->request().message = frame.subspan(sizeof(header));
  shared_.slots.HandOver(call);
}

void RequestIntake::Begin(const RequestHeader& header, ServerCall* call) {
  absl::Time deadline = absl::InfiniteFuture();
  if (header.timeout_us != kNoTimeout) {
    // So that it is at most kNowAgeMax before the client's own.
    connection_.poller().RefreshNow();
    deadline = DeadlineAfter(header.timeout_us);
  }
  shared_.slots.Open();
  call->Begin(header.frame.call_id, header.method_id, deadline);
  call->reply().written = false;
  call->reply().attachment_bytes = 0;
  call->stream_part().streamed = false;
}

absl::Time RequestIntake::DeadlineAfter(uint64_t timeout_us) const {
  const int64_t now_ns = connection_.poller().now_ns();
  const uint64_t most_us = static_cast<uint64_t>(INT64_MAX - now_ns) / 1000;
  // The sum would not fit: so long a timeout is none.
  if (ABSL_PREDICT_FALSE(timeout_us > most_us)) return absl::InfiniteFuture();
  return absl::FromUnixNanos(now_ns + static_cast<int64_t>(timeout_us * 1000));
}

// First what ends the connection, then what refuses the call, then the parts:
// those in the frame are taken, those in the client's arenas are READ.
void RequestIntake::Handle(absl::Span<const uint8_t> frame, Buffer* whole) {
  const auto header = LoadHeader<RequestHeader>(frame);
  if (policy_ == Policy::kForbid) {
    return connection_.ProtocolError("it began a call after its GOAWAY");
  }
  ServerCall* const call = shared_.slots.FindFree(header.frame.call_id);
  if (call == nullptr) return;
  const RequestBody body = SplitRequest(frame);
  if (!FindRanges(header, body.lease_rkey, call) ||
      !metadata_.Take(header.frame.call_id, body.metadata, call)) {
    return;
  }
  // From here on the call is open, and the client gets a RESPONSE.
  Begin(header, call);
  if (!takes_calls()) return replies_.RefuseUnprocessed(call);
  const uint64_t bytes =
      uint64_t{header.message_bytes} + header.attachment_bytes;
  if (bytes > connection_.options().max_receive_message_bytes) {
    return RefuseTooLarge(call, bytes);
  }
  if (!body.attachment.empty()) {
    TakeInlineAttachment(call, body.attachment, whole);
  }
  if ((header.frame.flags & kFlagStream) != 0) {
    absl::Status opened = streams_.Open(call);
    if (!opened.ok()) return replies_.Refuse(call, std::move(opened));
  }
  if ((header.frame.flags & (kFlagMessageInArena | kFlagAttachmentInArena)) !=
      0) {
    return AwaitTurn(call, header, body.message);
  }
  CallRequest& request = call->request();
  request.message = body.message;
  if (whole != nullptr) {
    request.memory = std::move(*whole);
    request.owns_message = true;
  }
  shared_.slots.HandOver(call);
}

// Copies the attachment, because its receive buffer is posted again. Memory of
// a continued frame is the call's own, and is shared.
void RequestIntake::TakeInlineAttachment(ServerCall* call,
                                         absl::Span<const uint8_t> attachment,
                                         const Buffer* whole) {
  Buffer& taken = call->request().attachment;
  if (whole == nullptr) {
    taken = call->AllocateAttachment(attachment.size());
    std::memcpy(taken.data(), attachment.data(), attachment.size());
  } else {
    taken = whole->Share();
    taken.Narrow(whole->size() - attachment.size(), attachment.size());
  }
}

bool RequestIntake::FindLease(const RequestHeader& header, uint32_t lease_rkey,
                              CallReply* reply) {
  reply->lease_bytes = 0;
  reply->lease_rkey = lease_rkey;
  if ((header.frame.flags & kFlagReplyLease) == 0) return true;
  if (!shared_.arenas.Find(header.reply_arena, header.reply_offset,
                           header.reply_bytes, &reply->lease)) {
    connection_.ProtocolError(kLeaseOutsideArenas);
    return false;
  }
  reply->lease_bytes = header.reply_bytes;
  // A lease with a window is written under the window's key.
  if (lease_rkey != 0) reply->lease.rkey = lease_rkey;
  return true;
}

// Checks every range before the call begins: a range outside of the arenas
// costs the client its connection, not a call.
bool RequestIntake::FindRanges(const RequestHeader& header, uint32_t lease_rkey,
                               ServerCall* call) {
  if (!FindLease(header, lease_rkey, &call->reply())) return false;
  CallRequest& request = call->request();
  const bool sealed = connection_.opener() != nullptr;
  const auto length = [sealed](uint32_t bytes) {
    return sealed ? SealedRequestBytes(bytes) : bytes;
  };
  if ((header.frame.flags & kFlagMessageInArena) != 0 &&
      !shared_.arenas.Find(header.message_arena, header.message_offset,
                           length(header.message_bytes),
                           &request.message_source)) {
    connection_.ProtocolError("it named a request outside its arenas");
    return false;
  }
  if ((header.frame.flags & kFlagAttachmentInArena) != 0 &&
      !shared_.arenas.Find(header.attachment_arena, header.attachment_offset,
                           length(header.attachment_bytes),
                           &request.attachment_source)) {
    connection_.ProtocolError("it named an attachment outside its arenas");
    return false;
  }
  return true;
}

}  // namespace verbena::transport
