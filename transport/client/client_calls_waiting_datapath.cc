// ClientCalls: what waits for credits, for slots or for memory.

#include <cstring>

#include "transport/client/client_calls.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {

void ClientCalls::Wait(ClientCall* call) {
  call->slot_ = ClientCall::kQueued;
  if (slots_.full()) connection_.counters().slot_waits.Add();
  (call->fits_frame_ ? waiting_small_ : waiting_large_).PushBack(call);
  NoteDeadline(call->request().deadline);
  connection_.NoteWaiting();
}

void ClientCalls::AddDue(const Slot& slot) {
  due_.push_back(static_cast<uint16_t>(ClientCallSlots::IndexOf(slot.call_id)));
  connection_.NoteWaiting();
}

bool ClientCalls::SendWaiting() {
  if (!connection_.usable()) return false;
  SendDue();
  SendQueued(&waiting_small_);
  SendQueued(&waiting_large_);
  streams_.Send();
  return streams_.waiting() || !due_.empty() || !waiting_small_.empty() ||
         !waiting_large_.empty();
}

void ClientCalls::SendDue() {
  arenas_.set_lease_waits(false);
  // Each once, in the order in which they became due. Each is taken out before
  // it is tried: the end of a call may add others, or come back here.
  for (size_t left = due_.size(); left > 0 && !due_.empty(); --left) {
    if (!connection_.CanSend(/*spare_credits=*/0)) return;
    const uint16_t index = due_.front();
    due_.erase(due_.begin());
    if (!SendDueOf(&slots_.at(index))) due_.push_back(index);
  }
}

bool ClientCalls::SendDueOf(Slot* slot) {
  if (!slot->used) return true;  // The RESPONSE was faster.
  if (slot->cancel_due) return SendCancel(slot);
  return !slot->lease_wanted || SendLease(slot);
}

bool ClientCalls::SendCancel(Slot* slot) {
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

bool ClientCalls::SendLease(Slot* slot) {
  if (slot->memory.reply.empty()) {
    if (arenas_.lease_waits()) return false;
    absl::Status failed;
    if (!arenas_.AllocateLease(slot->lease_bytes, &slot->memory, &failed)) {
      if (absl::IsUnavailable(failed)) failed = MemoryWillComeBack();
      if (failed.ok()) {
        arenas_.set_lease_waits(true);
        return false;
      }
      Abandon(slot, failed);
      return true;  // The CANCEL is due of its own.
    }
  }
  if (!arenas_.Announce(connection_)) return false;
  if (arenas_.lends_through_windows() && slot->memory.window == nullptr &&
      !arenas_.Lend(connection_, &slot->memory)) {
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

void ClientCalls::SendQueued(Queue* queue) {
  // Each is taken out before it is tried: sending may lose the connection, and
  // that ends all that stand in the queue.
  while (!queue->empty() && connection_.usable()) {
    ClientCall* const call = queue->front();
    queue->Remove(call);
    call->slot_ = ClientCall::kIdle;
    if (SendAny(call)) continue;
    if (!connection_.failure().ok()) {
      DropMetadata(call);
      call->OnUnsent(connection_.failure());
      return;
    }
    call->slot_ = ClientCall::kQueued;
    queue->PushFront(call);
    return;
  }
}

void ClientCalls::HandleResponsePending(absl::Span<const uint8_t> frame) {
  const auto& header = HeaderIn<ResponsePendingHeader>(frame);
  Slot* const slot = FindSlot(header.frame);
  if (slot == nullptr) return;
  if (slot->memory.stream != nullptr ||
      (slot->call != nullptr && slot->call->stream_ != nullptr)) {
    return connection_.ProtocolError("it asked for a lease for a stream");
  }
  const uint64_t needed =
      LeaseBytes(header.message_bytes, header.attachment_bytes);
  if (slot->lease_wanted || needed <= slot->memory.reply.size()) {
    return connection_.ProtocolError(
        "it asked for a lease that it does not need");
  }
  // The server is done with the request.
  arenas_.Free(connection_.poller(), &slot->memory);
  if (slot->call == nullptr) return;  // Its CANCEL is on its way.
  const uint64_t bytes =
      uint64_t{header.message_bytes} + header.attachment_bytes;
  if (bytes > max_reply_bytes_) return Abandon(slot, TooLargeReply(bytes));
  slot->lease_wanted = true;
  slot->lease_bytes = static_cast<uint32_t>(needed);
  AddDue(*slot);
}

}  // namespace verbena::transport
