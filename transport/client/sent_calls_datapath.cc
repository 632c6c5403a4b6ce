#include <cstring>
#include <utility>

#include "transport/client/sent_calls.h"
#include "transport/streams/message_stream.h"
#include "transport/wire/frame_codec.h"
#include "transport/wire/sealed_part.h"

namespace verbena::transport {

// A server that wrote to the lease must have invalidated its key with this
// frame. Otherwise it could still change what it wrote.
bool SentCalls::TakeBackLease(const FrameHeader& header, ClientCallSlot* slot) {
  constexpr uint8_t kInLease = kFlagMessageInArena | kFlagAttachmentInArena;
  if ((header.flags & kInLease) != 0) {
    connection_.ProtocolError("it kept the key of the lease that it wrote to");
    return false;
  }
  // The frame and the LEASE may have crossed.
  shared_.arenas.TakeBack(connection_, &slot->memory);
  return connection_.usable();
}

ClientCall* SentCalls::TakeCall(ClientCallSlot* slot) {
  ClientCall* const call = std::exchange(slot->call, nullptr);
  --live_;
  call->link().slot = ClientCall::Link::kIdle;
  if (ABSL_PREDICT_FALSE(call->stream() != nullptr)) {
    // The reader keeps what has come, and nothing is sent any more.
    call->stream()->Close();
  }
  return call;
}

void SentCalls::End(ClientCallSlot* slot, const CallResponse& response,
                    uint64_t bytes) {
  // The slot is free before the call hears of it: its end may start another.
  ClientCall* const call =
      ABSL_PREDICT_TRUE(slot->call != nullptr) ? TakeCall(slot) : nullptr;
  if (ABSL_PREDICT_FALSE(!slot->memory.unused())) {
    shared_.arenas.Free(connection_.poller(), &slot->memory);
  }
  if (ABSL_PREDICT_FALSE(slot->quarantined)) EndQuarantine(slot);
  shared_.slots.Free(slot);
  if (ABSL_PREDICT_FALSE(call == nullptr)) return;
  if (ABSL_PREDICT_FALSE(bytes > max_reply_bytes_)) {
    call->OnFailed(TooLargeReply(bytes));
  } else {
    call->OnResponse(response);
  }
}

void SentCalls::AddDue(const ClientCallSlot& slot) {
  due_.push_back(static_cast<uint16_t>(ClientCallSlots::IndexOf(slot.call_id)));
  connection_.NoteWaiting();
}

void SentCalls::SendDue() {
  // SendLease() sets it again if memory is still short.
  shared_.arenas.set_lease_waits(false);
  // Each once, in the order in which they became due. Each is taken out before
  // it is tried: the end of a call may add others, or come back here.
  for (size_t left = due_.size(); left > 0 && !due_.empty(); --left) {
    if (!connection_.CanSend(/*spare_credits=*/0)) return;
    const uint16_t index = due_.front();
    due_.erase(due_.begin());
    if (!SendDueOf(&shared_.slots.at(index))) due_.push_back(index);
  }
}

bool SentCalls::SendDueOf(ClientCallSlot* slot) {
  if (!slot->used) return true;  // The RESPONSE was faster.
  if (slot->cancel_due) return SendCancel(slot);
  return !slot->lease_wanted || SendLease(slot);
}

bool SentCalls::SendCancel(ClientCallSlot* slot) {
  uint8_t* const out =
      connection_.BeginFrame(sizeof(FrameHeader), /*spare_credits=*/0);
  if (out == nullptr) return false;
  const FrameHeader header =
      Connection::PlainHeader(FrameType::kCancel, slot->call_id);
  std::memcpy(out, &header, sizeof(header));
  slot->cancel_due = false;
  connection_.Send(sizeof(header));
  return true;
}

// Gets memory, announces its arena, binds a window, and sends the LEASE. A step
// that was done stays done if a later one has to wait.
bool SentCalls::SendLease(ClientCallSlot* slot) {
  if (slot->memory.reply.empty()) {
    if (shared_.arenas.lease_waits()) return false;
    absl::Status failed;
    if (!shared_.arenas.AllocateLease(slot->lease_bytes, &slot->memory,
                                      &failed)) {
      if (absl::IsUnavailable(failed)) failed = MemoryWillComeBack();
      if (failed.ok()) {
        shared_.arenas.set_lease_waits(true);
        return false;
      }
      Abandon(slot, failed);
      return true;  // The CANCEL is due of its own.
    }
  }
  if (!shared_.arenas.Announce(connection_)) return false;
  if (shared_.arenas.lends_through_windows() &&
      slot->memory.window == nullptr &&
      !shared_.arenas.Lend(connection_, &slot->memory)) {
    return false;
  }
  uint8_t* const out =
      connection_.BeginFrame(sizeof(LeaseHeader), /*spare_credits=*/0);
  if (out == nullptr) return false;
  LeaseHeader header = {};
  header.frame = Connection::PlainHeader(FrameType::kLease, slot->call_id);
  header.frame.header_bytes = sizeof(header);
  header.arena = slot->memory.reply.region();
  header.offset = slot->memory.reply.offset();
  header.bytes = static_cast<uint32_t>(slot->memory.reply.size());
  header.rkey = slot->memory.lease_rkey();
  std::memcpy(out, &header, sizeof(header));
  slot->lease_wanted = false;
  slot->memory.Note(connection_.poller());
  connection_.Send(sizeof(header));
  return true;
}

// Frees the request's memory, which the server has read, and has a LEASE sent.
// A server that asks without need breaks the protocol.
void SentCalls::HandlePending(absl::Span<const uint8_t> frame) {
  const auto& header = HeaderIn<ResponsePendingHeader>(frame);
  ClientCallSlot* const slot = Find(header.frame);
  if (slot == nullptr) return;
  if (slot->memory.stream != nullptr ||
      (slot->call != nullptr && slot->call->stream() != nullptr)) {
    return connection_.ProtocolError("it asked for a lease for a stream");
  }
  const uint64_t needed =
      ReplyLeaseBytes(shared_.arenas.seals_parts(), header.message_bytes,
                      header.attachment_bytes);
  if (slot->lease_wanted || needed <= slot->memory.reply.size()) {
    return connection_.ProtocolError(
        "it asked for a lease that it does not need");
  }
  // The server is done with the request.
  shared_.arenas.Free(connection_.poller(), &slot->memory);
  if (slot->call == nullptr) return;  // Its CANCEL is on its way.
  const uint64_t bytes =
      uint64_t{header.message_bytes} + header.attachment_bytes;
  // Before memory is allocated for a reply that nobody would take.
  if (bytes > max_reply_bytes_) return Abandon(slot, TooLargeReply(bytes));
  slot->lease_wanted = true;
  slot->lease_bytes = static_cast<uint32_t>(needed);
  AddDue(*slot);
}

}  // namespace verbena::transport
