#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/base/check.h"
#include "transport/connection/server_session.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {

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
  switch (type) {
    case FrameType::kRequest:
      HandleRequest(frame);
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

void ServerSession::HandleRequest(absl::Span<const uint8_t> frame) {
  const RequestHeader header = LoadHeader<RequestHeader>(frame);
  ServerCall* const call = FindCall(header.frame.call_id);
  if (call == nullptr) return;
  if (call->state_ != State::kFree) {
    ProtocolError("it began a call in a slot that is in use");
    return;
  }
  if (!FindRanges(header, call)) return;
  const RequestBody body = SplitRequest(frame);
  ++open_calls_;
  call->call_id_ = header.frame.call_id;
  call->method_id_ = header.method_id;
  call->deadline_ =
      header.timeout_us == kNoTimeout
          ? absl::InfiniteFuture()
          : poller().now() + absl::Microseconds(header.timeout_us);
  call->cancelled_.store(false, std::memory_order_relaxed);
  call->metadata_.assign(reinterpret_cast<const char*>(body.metadata.data()),
                         body.metadata.size());
  call->message_written_ = false;
  if (header.message_bytes > options().max_receive_message_bytes) {
    Refuse(call, TooLargeRequest(header.message_bytes));
  } else if (header.attachment_bytes > 0) {
    Refuse(call, absl::UnimplementedError("this server takes no attachments"));
  } else if ((header.frame.flags & kFlagMessageInArena) == 0) {
    call->message_ = body.message;
    Dispatch(call);
  } else {
    call->request_bytes_ = header.message_bytes;
    call->state_ = State::kAwaitsMemory;
    if (!memory_waiters_.empty() || !StartRead(call)) {
      memory_waiters_.push_back(call);
    }
  }
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
  return true;
}

bool ServerSession::StartRead(ServerCall* call) {
  absl::StatusOr<Buffer> memory =
      device().pool().Allocate(call->request_bytes_);
  if (absl::IsUnavailable(memory.status())) return false;
  if (!memory.ok()) {
    Refuse(call, memory.status());
    return true;
  }
  call->request_ = *std::move(memory);
  call->state_ = State::kReading;
  BulkTransfer* const transfer = transfers_.Acquire();
  transfer->opcode = IBV_WR_RDMA_READ;
  transfer->local = call->request_.data();
  transfer->lkey = call->request_.lkey();
  transfer->remote = call->request_source_;
  transfer->bytes = call->request_bytes_;
  transfer->owner = call;
  transfers_.Start(transfer);
  return true;
}

void ServerSession::OnBulkDone(void* tag) {
  BulkTransfer* const transfer = static_cast<BulkTransfer*>(tag);
  if (!transfers_.ChunkDone(transfer)) return;
  ServerCall* const call = static_cast<ServerCall*>(transfer->owner);
  const bool read = transfer->opcode == IBV_WR_RDMA_READ;
  transfers_.Release(transfer);
  if (!read) return;
  if (!usable()) {
    FreeCall(call);
  } else if (call->cancelled()) {
    Refuse(call, absl::CancelledError("the client cancelled the call"));
  } else {
    call->message_ = {call->request_.data(), call->request_bytes_};
    Dispatch(call);
  }
}

void ServerSession::Dispatch(ServerCall* call) {
  call->state_ = State::kHandling;
  ++handling_;
  handler_.OnCall(call);
}

void ServerSession::Finish(ServerCall* call, ServerCall::Reply reply) {
  CHECK(call->state_ == State::kHandling);
  --handling_;
  call->message_ = {};
  call->request_.Reset();
  call->reply_ = std::move(reply);
  if (!usable()) {
    FreeCall(call);
    return;
  }
  const uint64_t bytes = call->reply_.message_bytes;
  const uint64_t limit =
      std::min<uint64_t>(options().max_send_message_bytes,
                         peer_limits().max_receive_message_bytes);
  if (call->cancelled()) {
    Refuse(call, absl::CancelledError("the client cancelled the call"));
  } else if (call->reply_.metadata_bytes > kMaxMetadataBytes) {
    Refuse(call, TooLargeMetadata(call->reply_.metadata_bytes));
  } else if (!call->reply_.status.ok()) {
    CHECK_EQ(bytes, 0u) << "a call that fails has no message";
    QueueFrame(call, State::kReplyQueued);
  } else if (bytes > limit) {
    Refuse(call, TooLargeReply(bytes, limit));
  } else if (call->reply_.metadata_bytes + bytes <= RoomForReply()) {
    QueueFrame(call, State::kReplyQueued);
  } else if (call->lease_bytes_ < bytes) {
    // It takes memory here only once there is memory at the client: else
    // replies could hold all of ours while they wait for a lease, and requests
    // that wait for ours all of the client's.
    QueueFrame(call, State::kPendingQueued);
  } else {
    AwaitReplyMemory(call);
  }
  PumpSoon();
}

void ServerSession::AwaitReplyMemory(ServerCall* call) {
  call->state_ = State::kAwaitsReplyMemory;
  if (!memory_waiters_.empty() || !PlaceReply(call)) {
    memory_waiters_.push_back(call);
  }
}

uint64_t ServerSession::RoomForReply() const {
  return std::min<uint64_t>(kSlotBytes, peer_limits().slot_bytes) -
         sizeof(ResponseHeader);
}

bool ServerSession::PlaceReply(ServerCall* call) {
  ServerCall::Reply& reply = call->reply_;
  if (reply.buffer.empty()) {
    absl::StatusOr<Buffer> memory =
        device().pool().Allocate(reply.metadata_bytes + reply.message_bytes);
    if (absl::IsUnavailable(memory.status())) return false;
    if (!memory.ok()) {
      Refuse(call, memory.status());
      return true;
    }
    reply.buffer = *std::move(memory);
    CHECK(reply.writer != nullptr) << "a reply needs a buffer or a writer";
    reply.writer->WriteReply(reply.buffer.data());
  }
  if (reply.writer != nullptr) {
    std::exchange(reply.writer, nullptr)->OnReplyDone();
  }
  StartWrite(call);
  return true;
}

void ServerSession::StartWrite(ServerCall* call) {
  ServerCall::Reply& reply = call->reply_;
  call->state_ = State::kWriting;
  BulkTransfer* const transfer = transfers_.Acquire();
  transfer->opcode = IBV_WR_RDMA_WRITE;
  transfer->local = reply.buffer.data() + reply.metadata_bytes;
  transfer->lkey = reply.buffer.lkey();
  transfer->remote = call->lease_;
  transfer->bytes = static_cast<uint32_t>(reply.message_bytes);
  transfer->owner = call;
  // The metadata go into the RESPONSE, which may be posted after the transfer
  // has ended.
  call->metadata_.assign(reinterpret_cast<const char*>(reply.buffer.data()),
                         reply.metadata_bytes);
  transfer->hold = std::move(reply.buffer);
  transfers_.Start(transfer);
}

void ServerSession::HandleLease(absl::Span<const uint8_t> frame) {
  const LeaseHeader header = LoadHeader<LeaseHeader>(frame);
  ServerCall* const call = FindCall(header.frame.call_id);
  if (call == nullptr) return;
  if (call->state_ != State::kAwaitsLease ||
      call->call_id_ != header.frame.call_id ||
      header.bytes < call->reply_.message_bytes) {
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
    frame_waiters_.push_back(call);
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
  return reply.status.message().substr(
      0, std::min<uint64_t>(kMaxStatusMessageBytes, RoomForReply()));
}

uint32_t ServerSession::ResponseFrameBytes(const ServerCall* call) const {
  const ServerCall::Reply& reply = call->reply_;
  uint64_t bytes =
      sizeof(ResponseHeader) + StatusText(reply).size() + reply.metadata_bytes;
  if (!call->message_written_) bytes += reply.message_bytes;
  return static_cast<uint32_t>(bytes);
}

void ServerSession::SendPending(ServerCall* call, uint8_t* out) {
  ResponsePendingHeader header = {};
  header.frame = PlainHeader(FrameType::kResponsePending, call->call_id_);
  header.frame.header_bytes = sizeof(header);
  header.message_bytes = static_cast<uint32_t>(call->reply_.message_bytes);
  std::memcpy(out, &header, sizeof(header));
  call->state_ = State::kAwaitsLease;
  Send(sizeof(header), /*signalled=*/false);
  if (usable() && call->cancelled()) {
    Refuse(call, absl::CancelledError("the client cancelled the call"));
  }
}

void ServerSession::SendResponse(ServerCall* call, uint8_t* out) {
  ServerCall::Reply& reply = call->reply_;
  const absl::string_view text = StatusText(reply);
  ResponseHeader header = {};
  header.frame = PlainHeader(FrameType::kResponse, call->call_id_);
  header.frame.header_bytes = sizeof(header);
  header.code = static_cast<uint32_t>(reply.status.code());
  header.status_message_bytes = static_cast<uint16_t>(text.size());
  header.metadata_bytes = static_cast<uint16_t>(reply.metadata_bytes);
  header.message_bytes = static_cast<uint32_t>(reply.message_bytes);
  uint8_t* body = out + sizeof(header);
  header.frame.body_bytes = header.status_message_bytes + header.metadata_bytes;
  if (!text.empty()) std::memcpy(body, text.data(), text.size());
  body += text.size();
  if (call->message_written_) {
    header.frame.flags |= kFlagMessageInArena;
    std::memcpy(body, call->metadata_.data(), call->metadata_.size());
  } else {
    header.frame.body_bytes += header.message_bytes;
    if (!reply.buffer.empty()) {
      std::memcpy(body, reply.buffer.data(),
                  reply.metadata_bytes + reply.message_bytes);
    } else if (reply.writer != nullptr) {
      reply.writer->WriteReply(body);
    }
  }
  std::memcpy(out, &header, sizeof(header));
  // The writer hears last: what it does may send something else.
  ReplyWriter* const writer = std::exchange(reply.writer, nullptr);
  // The slot may be used again as soon as the client has the RESPONSE.
  FreeCall(call);
  Send(header.frame.header_bytes + header.frame.body_bytes,
       /*signalled=*/false);
  if (writer != nullptr) writer->OnReplyDone();
}

void ServerSession::Pump() {
  if (welcome_due_ && usable()) SendWelcome();
  // Taken out before they are tried: sending may lose the connection, and that
  // clears the queues.
  while (!frame_waiters_.empty() && usable()) {
    ServerCall* const call = frame_waiters_.front();
    frame_waiters_.pop_front();
    if (SendQueued(call)) continue;
    frame_waiters_.push_front(call);
    break;
  }
  while (!memory_waiters_.empty() && usable()) {
    ServerCall* const call = memory_waiters_.front();
    memory_waiters_.pop_front();
    const bool moved = call->state_ == State::kAwaitsMemory ? StartRead(call)
                                                            : PlaceReply(call);
    if (moved) continue;
    memory_waiters_.push_front(call);
    break;
  }
  if (!usable()) return;
  const absl::Status status =
      transfers_.Pump(send_queue(), [this](BulkTransfer* transfer) {
        if (transfer->opcode != IBV_WR_RDMA_WRITE) return;
        // The queue pair keeps the order: the RESPONSE arrives after the data.
        ServerCall* const call = static_cast<ServerCall*>(transfer->owner);
        call->message_written_ = true;
        QueueFrame(call, State::kReplyQueued);
      });
  if (!status.ok()) Close(status);
}

}  // namespace verbena::transport
