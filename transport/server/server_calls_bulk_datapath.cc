// ServerCalls: large parts of requests and replies.

#include <cstring>
#include <utility>

#include "transport/base/check.h"
#include "transport/base/status_macros.h"
#include "transport/server/server_calls.h"

namespace verbena::transport {
namespace {

absl::Status OverShare() {
  return absl::UnavailableError("the connection has its share of the memory");
}

}  // namespace

void ServerCalls::AwaitRequest(ServerCall* call) {
  if (IsLargeRead(*call)) ++large_reads_;
  if (!memory_waiters_.empty() || !StartReads(call)) {
    memory_waiters_.PushBack(call);
    NoteExpiry(*call);
  }
  connection_.NoteWaiting();
}

absl::StatusOr<Buffer> ServerCalls::AllocateBulk(size_t bytes) const {
  if (!account_->Reserve(OccupiedBytes(bytes))) return OverShare();
  return connection_.pool().AllocateReserved(bytes, *account_);
}

absl::Status ServerCalls::AllocateParts(uint64_t message_bytes,
                                        uint64_t attachment_bytes,
                                        Buffer* message, Buffer* attachment) {
  absl::Status status =
      AllocateApart(message_bytes, attachment_bytes, message, attachment);
  if (message_bytes == 0 || attachment_bytes == 0 ||
      !absl::IsUnavailable(status)) {
    return status;
  }
  // A single block may fit where two do not: each block is rounded up, and
  // the pool promises one block that holds the longest message and
  // attachment together.
  const uint64_t apart =
      OccupiedBytes(message_bytes) + OccupiedBytes(attachment_bytes);
  absl::StatusOr<Buffer> both = AllocateBulk(message_bytes + attachment_bytes);
  if (!both.ok()) {
    const bool never = !absl::IsUnavailable(both.status()) &&
                       apart > connection_.options().max_bulk_bytes;
    return never ? std::move(both).status() : status;
  }
  *attachment = both->Share();
  attachment->Narrow(message_bytes, attachment_bytes);
  *message = *std::move(both);
  message->Narrow(0, message_bytes);
  return absl::OkStatus();
}

// All of it or nothing: calls that each held a part could wait for each other.
absl::Status ServerCalls::AllocateApart(uint64_t message_bytes,
                                        uint64_t attachment_bytes,
                                        Buffer* message, Buffer* attachment) {
  if (message_bytes + attachment_bytes == 0) return absl::OkStatus();
  BufferPool& pool = connection_.pool();
  if (!account_->Reserve(OccupiedBytes(message_bytes) +
                         OccupiedBytes(attachment_bytes))) {
    over_share_ = true;
    return OverShare();
  }
  if (message_bytes > 0) {
    absl::StatusOr<Buffer> part =
        pool.AllocateReserved(message_bytes, *account_);
    if (!part.ok()) {
      account_->Unreserve(OccupiedBytes(attachment_bytes));
      return std::move(part).status();
    }
    *message = *std::move(part);
  }
  if (attachment_bytes > 0) {
    absl::StatusOr<Buffer> part =
        pool.AllocateReserved(attachment_bytes, *account_);
    if (!part.ok()) {
      message->Reset();
      return std::move(part).status();
    }
    *attachment = *std::move(part);
  }
  return absl::OkStatus();
}

bool ServerCalls::StartReads(ServerCall* call) {
  Buffer message;
  Buffer attachment;
  const absl::Status status = AllocateParts(
      call->request_bytes_, call->attachment_bytes_, &message, &attachment);
  if (absl::IsUnavailable(status)) return false;
  if (!status.ok()) {
    if (IsLargeRead(*call)) --large_reads_;
    Refuse(call, status);
    return true;
  }
  call->state_ = State::kReading;
  call->transfers_left_ = 0;
  call->part_sums_ = {};
  if (!message.empty()) {
    StartRead(call, message, call->request_source_, &call->part_sums_.message);
    call->request_ = std::move(message);
    call->owns_message_ = true;
  }
  if (!attachment.empty()) {
    StartRead(call, attachment, call->attachment_source_,
              &call->part_sums_.attachment);
    call->attachment_ = std::move(attachment);
  }
  return true;
}

void ServerCalls::StartRead(ServerCall* call, const Buffer& sink,
                            const RemoteArenas::RemoteRange& source,
                            uint32_t* sum) {
  ++call->transfers_left_;
  BulkTransfer* const transfer = transfers_.Acquire();
  transfer->opcode = IBV_WR_RDMA_READ;
  transfer->local = sink.data();
  transfer->lkey = sink.lkey();
  transfer->remote = source;
  transfer->bytes = static_cast<uint32_t>(sink.size());
  if (connection_.expects_sums()) transfer->sum = sum;
  NoteTransfer(transfer->bytes);
  transfer->owner = call;
  transfers_.Start(transfer);
  connection_.NoteWaiting();
}

void ServerCalls::OnTransferDone(void* tag) {
  BulkTransfer* const transfer = static_cast<BulkTransfer*>(tag);
  if (!transfers_.ChunkDone(transfer)) return;
  if (transfer->of_stream) return OnStreamTransferDone(transfer);
  ServerCall* const call = static_cast<ServerCall*>(transfer->owner);
  const bool read = transfer->opcode == IBV_WR_RDMA_READ;
  NoteTransfer(-int64_t{transfer->bytes});
  transfers_.Release(transfer);
  if (!read || --call->transfers_left_ > 0) return;
  if (IsLargeRead(*call)) --large_reads_;
  if (connection_.expects_sums() && connection_.usable()) CheckParts(*call);
  if (!connection_.usable()) {
    FreeCall(call);
  } else if (call->cancelled()) {
    Refuse(call, absl::CancelledError("the client cancelled the call"));
  } else if (connection_.poller().now() >= ExpiryOf(*call)) {
    Refuse(call, absl::DeadlineExceededError(
                     "the deadline of the call passed before its request was "
                     "read"));
  } else {
    if (call->request_.empty()) {
      call->message_ = absl::MakeConstSpan(
          reinterpret_cast<const uint8_t*>(call->held_message_.data()),
          call->held_message_.size());
    } else {
      call->message_ = call->request_.span();
    }
    HandOver(call);
  }
}

void ServerCalls::CheckParts(const ServerCall& call) {
  const PartSums& stated = call.stated_sums_;
  const PartSums& found = call.part_sums_;
  if (call.request_bytes_ > 0 && found.message != stated.message) {
    connection_.PartDamaged("the message of a request", call.request_bytes_,
                            stated.message, found.message);
  } else if (call.attachment_bytes_ > 0 &&
             found.attachment != stated.attachment) {
    connection_.PartDamaged("the attachment of a request",
                            call.attachment_bytes_, stated.attachment,
                            found.attachment);
  }
}

uint32_t ServerCalls::LeaseNeeded(const ServerCall& call) {
  const Placement& place = call.reply_place_;
  const ServerCall::Reply& reply = call.reply_;
  return static_cast<uint32_t>(
      LeaseBytes(place.message_inline ? 0 : reply.message_bytes,
                 place.attachment_inline ? 0 : call.reply_attachment_bytes_));
}

void ServerCalls::AwaitReplyMemory(ServerCall* call) {
  call->state_ = State::kAwaitsReplyMemory;
  if (!memory_waiters_.empty() || !PlaceReply(call)) {
    memory_waiters_.PushBack(call);
    NoteExpiry(*call);
  }
  connection_.NoteWaiting();
}

bool ServerCalls::PlaceReply(ServerCall* call) {
  ServerCall::Reply& reply = call->reply_;
  const Placement place = call->reply_place_;
  const bool copy =
      !place.attachment_inline && !connection_.pool().Owns(reply.attachment);
  const bool write = !place.message_inline && reply.buffer.empty();
  Buffer message;
  Buffer attachment;
  const absl::Status status =
      AllocateParts(write ? reply.metadata_bytes + reply.message_bytes : 0,
                    copy ? reply.attachment.size() : 0, &message, &attachment);
  if (absl::IsUnavailable(status)) return false;
  if (!status.ok()) {
    Refuse(call, status);
    return true;
  }
  if (write) {
    CHECK(reply.writer != nullptr) << "a reply needs a buffer or a writer";
    reply.writer->WriteReply(message.data());
    reply.buffer = std::move(message);
  }
  if (copy) {
    std::memcpy(attachment.data(), reply.attachment.data(), attachment.size());
    reply.attachment = std::move(attachment);
  }
  StartWrites(call);
  return true;
}

void ServerCalls::StartWrites(ServerCall* call) {
  ServerCall::Reply& reply = call->reply_;
  const Placement place = call->reply_place_;
  call->state_ = State::kWriting;
  call->transfers_left_ = 0;
  call->part_sums_ = {};
  if (!place.message_inline) {
    if (reply.writer != nullptr) {
      std::exchange(reply.writer, nullptr)->OnReplyDone();
    }
    // The metadata go into the RESPONSE, which may be posted after the transfer
    // has ended.
    call->metadata_.assign(reinterpret_cast<const char*>(reply.buffer.data()),
                           reply.metadata_bytes);
    reply.buffer.Narrow(reply.metadata_bytes, reply.message_bytes);
    StartWrite(call, std::move(reply.buffer), 0, &call->part_sums_.message);
  }
  if (!place.attachment_inline) {
    const uint64_t start =
        place.message_inline ? 0 : AlignPart(reply.message_bytes);
    StartWrite(call, std::move(reply.attachment), start,
               &call->part_sums_.attachment);
  }
}

void ServerCalls::StartWrite(ServerCall* call, Buffer source,
                             uint64_t lease_offset, uint32_t* sum) {
  ++call->transfers_left_;
  BulkTransfer* const transfer = transfers_.Acquire();
  transfer->opcode = IBV_WR_RDMA_WRITE;
  transfer->local = source.data();
  transfer->lkey = source.lkey();
  transfer->remote = call->lease_;
  transfer->remote.address += lease_offset;
  transfer->bytes = static_cast<uint32_t>(source.size());
  if (connection_.expects_sums()) transfer->sum = sum;
  NoteTransfer(transfer->bytes);
  transfer->owner = call;
  transfer->hold = std::move(source);
  transfers_.Start(transfer);
  connection_.NoteWaiting();
}

}  // namespace verbena::transport
