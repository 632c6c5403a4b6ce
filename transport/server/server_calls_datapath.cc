// ServerCalls: what every call goes through.

#include "absl/base/optimization.h"
#include "transport/base/check.h"
#include "transport/server/server_calls.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {

void ServerCalls::OnFrame(absl::Span<const uint8_t> frame, bool plain) {
  const FrameType type = HeaderIn<FrameHeader>(frame).type;
  if (ABSL_PREDICT_FALSE(!connection_.usable())) return HandleOpening(frame);
  if (ABSL_PREDICT_FALSE(assembly_.Concerns(frame))) return HandlePart(frame);
  switch (type) {
    case FrameType::kRequest:
      return ABSL_PREDICT_TRUE(plain) ? HandlePlainRequest(frame)
                                      : HandleRequest(frame, /*whole=*/nullptr);
    case FrameType::kData:
      return HandleData(frame);
    case FrameType::kWindow:
      return HandleWindow(frame);
    case FrameType::kMessage:
      return HandleLongMessage(frame);
    case FrameType::kMetadata:
      return HandleMetadata(frame);
    case FrameType::kLease:
      return HandleLease(frame);
    case FrameType::kCancel:
      return HandleCancel(frame);
    case FrameType::kArena:
      return HandleArena(frame);
    case FrameType::kHello:
    case FrameType::kCredentials:
      return connection_.ProtocolError("it sent a second HELLO");
    default:
      connection_.ProtocolError("a client sent a frame that only servers send");
  }
}

ServerCall* ServerCalls::FindCall(uint32_t call_id) {
  const uint32_t slot = call_id & 0xffff;
  if (ABSL_PREDICT_FALSE(slot >= calls_.size())) {
    connection_.ProtocolError("it used a call slot beyond the limit");
    return nullptr;
  }
  if (ABSL_PREDICT_FALSE(calls_[slot] == nullptr)) MakeCallSlow(slot);
  return calls_[slot].get();
}

ServerCall* ServerCalls::FindFreeCall(uint32_t call_id) {
  ServerCall* const call = FindCall(call_id);
  if (ABSL_PREDICT_FALSE(call == nullptr)) return nullptr;
  if (ABSL_PREDICT_TRUE(call->state_ == State::kFree)) return call;
  connection_.ProtocolError("it began a call in a slot that is in use");
  return nullptr;
}

void ServerCalls::HandlePlainRequest(absl::Span<const uint8_t> frame) {
  const auto& header = HeaderIn<RequestHeader>(frame);
  if (ABSL_PREDICT_FALSE(header.message_bytes >
                             connection_.options().max_receive_message_bytes ||
                         !takes_calls())) {
    return HandleRequest(frame, /*whole=*/nullptr);  // Which refuses it.
  }
  ServerCall* const call = FindFreeCall(header.frame.call_id);
  if (ABSL_PREDICT_FALSE(call == nullptr)) return;
  if (ABSL_PREDICT_FALSE(!call->metadata_.empty()) &&
      !TakeMetadata(header.frame.call_id, /*inline_metadata=*/{}, call)) {
    return;
  }
  BeginCall(header, call);
  call->lease_bytes_ = 0;
  call->lease_rkey_ = 0;
  call->message_ = frame.subspan(sizeof(header));
  HandOver(call);
}

void ServerCalls::BeginCall(const RequestHeader& header, ServerCall* call) {
  ++open_calls_;
  call->call_id_ = header.frame.call_id;
  call->method_id_ = header.method_id;
  call->deadline_ = absl::InfiniteFuture();
  if (header.timeout_us != kNoTimeout) {
    // So that it is at most kNowAgeMax before the client's own.
    connection_.poller().RefreshNow();
    call->deadline_ = DeadlineAfter(header.timeout_us);
  }
  call->cancelled_.store(false, std::memory_order_relaxed);
  call->reply_written_ = false;
  call->reply_attachment_bytes_ = 0;
  call->streamed_ = false;
}

absl::Time ServerCalls::DeadlineAfter(uint64_t timeout_us) const {
  const int64_t now_ns = connection_.poller().now_ns();
  const uint64_t most_us = static_cast<uint64_t>(INT64_MAX - now_ns) / 1000;
  if (ABSL_PREDICT_FALSE(timeout_us > most_us)) return absl::InfiniteFuture();
  return absl::FromUnixNanos(now_ns + static_cast<int64_t>(timeout_us * 1000));
}

void ServerCalls::HandOver(ServerCall* call) {
  call->state_ = State::kHandling;
  ++handling_;
  handler_.OnCall(call);
}

ServerCall* ServerCalls::FindStream(uint32_t call_id) {
  ServerCall* const call = FindCall(call_id);
  // Its RESPONSE may have crossed the frame, or its handler have returned.
  if (call == nullptr || call->call_id_ != call_id ||
      (call->state_ != State::kHandling && call->state_ != State::kDraining) ||
      call->cancelled()) {
    return nullptr;
  }
  if (call->stream_ != nullptr) return call;
  connection_.ProtocolError(kNoStream);
  return nullptr;
}

void ServerCalls::HandleData(absl::Span<const uint8_t> frame) {
  const auto& header = HeaderIn<FrameHeader>(frame);
  ServerCall* const call = FindStream(header.call_id);
  // When the handler has returned, nobody reads it.
  if (call == nullptr || call->state_ == State::kDraining) return;
  MessageStream* const stream = call->stream_.get();
  const char* const error = stream->OnData(frame.subspan(sizeof(header)),
                                           (header.flags & kFlagLastData) != 0);
  if (error != nullptr) return connection_.ProtocolError(error);
  if (!stream->failure().ok()) {
    FailStream(call);
  } else if (stream->GrantDue()) {
    streams_.Serve(stream);
  }
}

void ServerCalls::FailStream(ServerCall* call) {
  // The handler reads and writes nothing more, and can tell that the client has
  // not sent all; its call ends with the failure.
  call->cancelled_.store(true, std::memory_order_relaxed);
  CloseStream(call);
  if (call->state_ == State::kHandling) handler_.OnCancelled(call);
}

void ServerCalls::HandleWindow(absl::Span<const uint8_t> frame) {
  const auto& header = HeaderIn<WindowHeader>(frame);
  ServerCall* const call = FindStream(header.frame.call_id);
  if (call == nullptr) return;
  const char* const error =
      header.message_limit == 0
          ? call->stream_->OnWindow(header.limit)
          : "it allowed MESSAGEs, for which a server needs leases";
  if (error != nullptr) return connection_.ProtocolError(error);
  streams_.Serve(call->stream_.get());
}

uint8_t* ServerCalls::BeginPlainReply(ServerCall* call,
                                      uint64_t message_bytes) {
  CHECK(call->state_ == State::kHandling);
  if (!connection_.usable() || call->cancelled() ||
      message_bytes > plain_reply_max_ || !frame_waiters_.empty()) {
    return nullptr;
  }
  const uint32_t bytes = static_cast<uint32_t>(message_bytes);
  const uint32_t frame_bytes =
      static_cast<uint32_t>(sizeof(ResponseHeader)) + bytes;
  uint8_t* const out =
      ABSL_PREDICT_TRUE(call->lease_rkey_ == 0)
          ? connection_.BeginCall(frame_bytes, /*spare_credits=*/0)
          : connection_.BeginFrame(frame_bytes, /*spare_credits=*/0);
  if (ABSL_PREDICT_FALSE(out == nullptr)) return nullptr;
  // In place: nothing is cleared that is written next.
  *reinterpret_cast<ResponseHeader*>(out) = {
      .frame = {.type = FrameType::kResponse,
                .flags = 0,
                .header_bytes = sizeof(ResponseHeader),
                .credit_limit = 0,
                .call_id = call->call_id_,
                .body_bytes = bytes},
      .code = static_cast<uint32_t>(absl::StatusCode::kOk),
      .status_message_bytes = 0,
      .metadata_bytes = 0,
      .message_bytes = bytes,
      .attachment_bytes = 0};
  call->plain_reply_bytes_ = bytes;
  return out + sizeof(ResponseHeader);
}

void ServerCalls::SendPlainReply(ServerCall* call) {
  --handling_;
  const uint32_t bytes = call->plain_reply_bytes_;
  call->ReleaseMessage();
  call->attachment_.Reset();
  // The slot may be used again as soon as the client has the RESPONSE.
  call->state_ = State::kFree;
  --open_calls_;
  connection_.SendCall(static_cast<uint32_t>(sizeof(ResponseHeader)) + bytes,
                       call->lease_rkey_);
  // Another call may wait for the memory that this one held.
  connection_.SendWaitingSoon();
}

}  // namespace verbena::transport
