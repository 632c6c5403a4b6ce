#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/base/check.h"
#include "transport/connection/client_session.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {
namespace {

// Replies up to this length come back in the RESPONSE itself.
constexpr uint64_t kFrameReplyBytes = kSlotBytes - sizeof(ResponseHeader);

// Where in its arena memory a message begins: the metadata stand before it, and
// copies are fastest from a multiple of 64.
uint32_t MessageOffset(uint32_t metadata_bytes) {
  return (metadata_bytes + 63) / 64 * 64;
}

uint64_t RemainingUs(absl::Time deadline) {
  const int64_t us = absl::ToInt64Microseconds(deadline - absl::Now());
  return us <= 0 ? 0 : static_cast<uint64_t>(us);
}

}  // namespace

uint32_t ClientSession::RequestFrameBytes(
    const ClientCall::Request& request) const {
  uint64_t bytes = sizeof(RequestHeader) + request.metadata_bytes;
  if (FitsFrame(request)) bytes += request.message_bytes;
  return static_cast<uint32_t>(bytes);
}

bool ClientSession::FitsFrame(const ClientCall::Request& request) const {
  const uint64_t room =
      std::min<uint64_t>(kSlotBytes, peer_limits().slot_bytes);
  return sizeof(RequestHeader) + request.metadata_bytes +
             request.message_bytes <=
         room;
}

uint32_t ClientSession::SlotIndex(const Slot* slot) const {
  return static_cast<uint32_t>(slot - slots_.data());
}

uint32_t ClientSession::CallId(uint32_t slot_index) const {
  return static_cast<uint32_t>(slots_[slot_index].generation) << 16 |
         slot_index;
}

bool ClientSession::TrySend(ClientCall* call) {
  // What is due goes first, unless it waits for something else.
  const size_t due = lease_waits_ ? 0 : due_.size();
  const uint32_t reserve =
      std::max(RequestReserve(), static_cast<uint32_t>(due));
  if (free_slots_.empty() || !CanSend(reserve)) return false;
  Buffer request;
  Buffer reply;
  absl::Status failed;
  if (!AllocateArenaMemory(call, &request, &reply, &failed)) {
    if (failed.ok()) return false;
    call->slot_ = ClientCall::kIdle;
    call->OnFailed(failed);
    return true;
  }
  if (!AnnounceArenas()) return false;
  uint8_t* const out = BeginFrame(RequestFrameBytes(call->request()), reserve);
  if (out == nullptr) return false;

  const uint32_t index = free_slots_.back();
  free_slots_.pop_back();
  Slot& slot = slots_[index];
  slot.used = true;
  slot.call = call;
  slot.request = std::move(request);
  slot.reply = std::move(reply);
  call->slot_ = index;
  ++live_;
  NoteDeadline(call->request().deadline);
  WriteRequestFrame(call, index, out);
  return true;
}

bool ClientSession::AllocateArenaMemory(ClientCall* call, Buffer* request,
                                        Buffer* reply, absl::Status* failure) {
  const ClientCall::Request& wanted = call->request();
  if (!FitsFrame(wanted)) {
    if (lease_waits_) return false;
    absl::StatusOr<Buffer> memory = device().pool().Allocate(
        MessageOffset(wanted.metadata_bytes) + wanted.message_bytes);
    if (!memory.ok()) {
      if (!absl::IsUnavailable(memory.status())) *failure = memory.status();
      return false;
    }
    *request = *std::move(memory);
  }
  const uint64_t hint = std::min<uint64_t>(wanted.reply_hint_bytes,
                                           options().max_receive_message_bytes);
  if (hint > kFrameReplyBytes && !lease_waits_) {
    // Without it the call only takes a round trip more.
    absl::StatusOr<Buffer> memory = device().pool().Allocate(hint);
    if (memory.ok()) *reply = *std::move(memory);
  }
  return true;
}

bool ClientSession::AnnounceArenas() {
  while (arenas_known_ < device().pool().region_count()) {
    uint8_t* const out = BeginFrame(sizeof(ArenaHeader), /*spare_credits=*/0);
    if (out == nullptr) return false;
    const BufferPool::Region region = device().pool().region(arenas_known_);
    ArenaHeader header = {};
    header.frame = PlainHeader(FrameType::kArena, 0);
    header.frame.header_bytes = sizeof(header);
    header.address = region.address;
    header.bytes = region.bytes;
    header.rkey = region.rkey;
    header.index = static_cast<uint16_t>(arenas_known_);
    std::memcpy(out, &header, sizeof(header));
    ++arenas_known_;
    Send(sizeof(header), /*signalled=*/false);
  }
  return true;
}

void ClientSession::WriteRequestFrame(ClientCall* call, uint32_t slot_index,
                                      uint8_t* out) {
  const ClientCall::Request& request = call->request();
  const Slot& slot = slots_[slot_index];
  RequestHeader header = {};
  header.frame = PlainHeader(FrameType::kRequest, CallId(slot_index));
  header.frame.header_bytes = sizeof(header);
  header.method_id = request.method_id;
  header.timeout_us = kNoTimeout;
  if (request.deadline != absl::InfiniteFuture()) {
    header.timeout_us = RemainingUs(request.deadline);
  }
  header.metadata_bytes = static_cast<uint16_t>(request.metadata_bytes);
  header.message_bytes = static_cast<uint32_t>(request.message_bytes);
  header.frame.body_bytes = request.metadata_bytes;
  if (!slot.reply.empty()) {
    header.frame.flags |= kFlagReplyLease;
    header.reply_arena = slot.reply.region();
    header.reply_offset = slot.reply.offset();
    header.reply_bytes = static_cast<uint32_t>(slot.reply.size());
  }
  if (slot.request.empty()) {
    header.frame.body_bytes += header.message_bytes;
    call->WriteRequest(out + sizeof(header));
  } else {
    const uint32_t start = MessageOffset(request.metadata_bytes);
    uint8_t* const metadata =
        slot.request.data() + start - request.metadata_bytes;
    call->WriteRequest(metadata);
    std::memcpy(out + sizeof(header), metadata, request.metadata_bytes);
    header.frame.flags |= kFlagMessageInArena;
    header.message_arena = slot.request.region();
    header.message_offset = slot.request.offset() + start;
  }
  std::memcpy(out, &header, sizeof(header));
  Send(header.frame.header_bytes + header.frame.body_bytes,
       /*signalled=*/false);
}

void ClientSession::Pump() {
  if (!usable()) return;
  PumpDue();
  PumpQueue(&small_);
  PumpQueue(&large_);
}

void ClientSession::PumpDue() {
  lease_waits_ = false;
  // One round, in the order in which they became due. Each is taken out before
  // it is tried: the end of a call may add others, or come back here.
  for (size_t left = due_.size(); left > 0 && !due_.empty(); --left) {
    if (!CanSend(/*spare_credits=*/0)) return;
    const uint16_t slot_index = due_.front();
    due_.erase(due_.begin());
    if (!PumpSlot(slot_index)) due_.push_back(slot_index);
  }
}

void ClientSession::PumpQueue(ClientCallQueue* queue) {
  while (!queue->empty() && usable()) {
    ClientCall* const call = queue->front();
    queue->Remove(call);
    call->slot_ = ClientCall::kIdle;
    if (TrySend(call)) continue;
    if (!failure().ok()) {
      call->OnFailed(failure());
      return;
    }
    call->slot_ = ClientCall::kQueued;
    queue->PushFront(call);
    return;
  }
}

bool ClientSession::PumpSlot(uint32_t slot_index) {
  Slot& slot = slots_[slot_index];
  if (!slot.used) return true;
  if (slot.cancel_due) {
    uint8_t* const out = BeginFrame(sizeof(FrameHeader), /*spare_credits=*/0);
    if (out == nullptr) return false;
    const FrameHeader header =
        PlainHeader(FrameType::kCancel, CallId(slot_index));
    std::memcpy(out, &header, sizeof(header));
    slot.cancel_due = false;
    Send(sizeof(header), /*signalled=*/false);
    return true;
  }
  if (!slot.lease_wanted) return true;
  if (slot.reply.empty()) {
    if (lease_waits_) return false;
    absl::StatusOr<Buffer> memory = device().pool().Allocate(slot.lease_bytes);
    if (absl::IsUnavailable(memory.status())) {
      lease_waits_ = true;
      return false;
    }
    if (!memory.ok()) {
      Abandon(&slot, memory.status());
      return true;  // The CANCEL is due of its own.
    }
    slot.reply = *std::move(memory);
  }
  if (!AnnounceArenas()) return false;
  uint8_t* const out = BeginFrame(sizeof(LeaseHeader), /*spare_credits=*/0);
  if (out == nullptr) return false;
  LeaseHeader header = {};
  header.frame = PlainHeader(FrameType::kLease, CallId(slot_index));
  header.frame.header_bytes = sizeof(header);
  header.arena = slot.reply.region();
  header.offset = slot.reply.offset();
  header.bytes = static_cast<uint32_t>(slot.reply.size());
  std::memcpy(out, &header, sizeof(header));
  slot.lease_wanted = false;
  Send(sizeof(header), /*signalled=*/false);
  return true;
}

void ClientSession::HandleFrame(FrameType type,
                                absl::Span<const uint8_t> frame) {
  if (type == FrameType::kWelcome) {
    HandleWelcome(frame);
  } else if (state() != ConnectionState::kOpen) {
    ProtocolError("it sent something before its WELCOME");
  } else if (type == FrameType::kResponse) {
    HandleResponse(frame);
  } else if (type == FrameType::kResponsePending) {
    HandleResponsePending(frame);
  } else {
    ProtocolError("a server sent a frame that only clients send");
  }
}

ClientSession::Slot* ClientSession::FindSlot(uint32_t call_id) {
  const uint32_t index = call_id & 0xffff;
  if (index >= slots_.size() || !slots_[index].used ||
      CallId(index) != call_id) {
    ProtocolError("it answered a call that is not open");
    return nullptr;
  }
  return &slots_[index];
}

void ClientSession::FreeSlot(uint32_t slot_index) {
  Slot& slot = slots_[slot_index];
  slot.used = false;
  slot.cancel_due = false;
  slot.lease_wanted = false;
  slot.request.Reset();
  slot.reply.Reset();
  ++slot.generation;
  free_slots_.push_back(static_cast<uint16_t>(slot_index));
}

void ClientSession::HandleResponse(absl::Span<const uint8_t> frame) {
  const ResponseHeader header = LoadHeader<ResponseHeader>(frame);
  Slot* const slot = FindSlot(header.frame.call_id);
  if (slot == nullptr) return;
  if (header.attachment_bytes > 0) {
    ProtocolError("it sent an attachment that nobody asked for");
    return;
  }
  const ResponseBody body = SplitResponse(frame);
  CallResponse response;
  response.code = static_cast<absl::StatusCode>(header.code);
  response.status_message = body.status_message;
  response.metadata = body.metadata;
  response.message = body.message;
  if ((header.frame.flags & kFlagMessageInArena) != 0) {
    if (slot->lease_wanted || header.message_bytes > slot->reply.size()) {
      ProtocolError("it wrote a reply that is longer than its lease");
      return;
    }
    response.message = {slot->reply.data(), header.message_bytes};
  }
  // The slot is free before the call hears of it: its end may start another.
  // The memory of the reply stays until the call has read it.
  const Buffer reply = std::move(slot->reply);
  ClientCall* const call = std::exchange(slot->call, nullptr);
  FreeSlot(SlotIndex(slot));
  if (call == nullptr) return;
  --live_;
  call->slot_ = ClientCall::kIdle;
  if (response.message.size() > options().max_receive_message_bytes) {
    call->OnFailed(TooLargeReply(response.message.size()));
  } else {
    call->OnResponse(response);
  }
}

void ClientSession::HandleResponsePending(absl::Span<const uint8_t> frame) {
  const ResponsePendingHeader header = LoadHeader<ResponsePendingHeader>(frame);
  Slot* const slot = FindSlot(header.frame.call_id);
  if (slot == nullptr) return;
  if (slot->lease_wanted || header.attachment_bytes > 0 ||
      header.message_bytes <= slot->reply.size()) {
    ProtocolError("it asked for a lease that it does not need");
    return;
  }
  // The server is done with the request.
  slot->request.Reset();
  slot->reply.Reset();
  if (slot->call == nullptr) return;  // Its CANCEL is on its way.
  if (header.message_bytes > options().max_receive_message_bytes) {
    Abandon(slot, TooLargeReply(header.message_bytes));
    return;
  }
  slot->lease_wanted = true;
  slot->lease_bytes = header.message_bytes;
  due_.push_back(static_cast<uint16_t>(SlotIndex(slot)));
}

}  // namespace verbena::transport
