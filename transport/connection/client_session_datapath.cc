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

// Whether it is a good reply that is a message and nothing else, and all here.
bool IsMessageAlone(const ResponseHeader& header) {
  constexpr uint8_t kElsewhere =
      kFlagMessageInArena | kFlagAttachmentInArena | kFlagContinued;
  return ((header.frame.flags & kElsewhere) | header.code |
          header.status_message_bytes | header.metadata_bytes |
          header.attachment_bytes) == 0;
}

uint64_t RemainingUs(absl::Time deadline, absl::Time now) {
  const int64_t us = absl::ToInt64Microseconds(deadline - now);
  return us <= 0 ? 0 : static_cast<uint64_t>(us);
}

}  // namespace

uint32_t ClientSession::RequestFrameBytes(const ClientCall::Request& request,
                                          Placement place) {
  uint64_t bytes = sizeof(RequestHeader) + request.metadata_bytes;
  if (place.message_inline) bytes += request.message_bytes;
  if (place.attachment_inline) bytes += request.attachment.size();
  return static_cast<uint32_t>(bytes);
}

Placement ClientSession::Place(const ClientCall::Request& request) const {
  // Metadata alone always fit.
  const uint64_t room =
      SendRoom() - sizeof(RequestHeader) - request.metadata_bytes;
  return PlaceParts(room, request.message_bytes, request.attachment.size());
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
  Placement place = Place(call->request());
  const bool continued =
      !place.all_inline() &&
      CanSendContinued(RequestFrameBytes(call->request(), Placement()),
                       reserve);
  if (continued) place = Placement();
  const uint32_t bytes = RequestFrameBytes(call->request(), place);
  const uint32_t index = free_slots_.back();
  Slot& slot = slots_[index];
  if (!place.all_inline() ||
      call->request().reply_hint_bytes > kFrameReplyBytes) {
    absl::Status failed;
    if (!AllocateArenaMemory(call->request(), place, &slot, &failed)) {
      FreeMemory(&slot);
      if (failed.ok()) return false;
      call->slot_ = ClientCall::kIdle;
      call->OnFailed(failed);
      return true;
    }
  }
  uint8_t* out = nullptr;
  // The announcements may take credits.
  const bool ready =
      AnnounceArenas() &&
      (continued ? CanSendContinued(bytes, reserve)
                 : (out = BeginFrame(bytes, reserve)) != nullptr);
  if (!ready) {
    FreeMemory(&slot);
    return false;
  }
  free_slots_.pop_back();
  slot.used = true;
  slot.call = call;
  call->slot_ = index;
  ++live_;
  NoteDeadline(call->request().deadline);
  NoteMemory(&slot);
  if (continued) {
    const Buffer frame = device().pool().AllocateOrPlain(bytes);
    WriteRequestFrame(call, place, index, frame.data());
    SendContinued(frame.span());
  } else {
    Send(WriteRequestFrame(call, place, index, out), /*signalled=*/false);
  }
  return true;
}

bool ClientSession::AllocateArenaMemory(const ClientCall::Request& request,
                                        Placement place, Slot* slot,
                                        absl::Status* failure) {
  const auto allocate = [&](uint64_t bytes, Buffer* memory) {
    // Requests leave what there is to a LEASE that waits for memory, because
    // the server has memory and work in that reply.
    if (lease_waits_) return false;
    absl::StatusOr<Buffer> allocated = device().pool().Allocate(bytes);
    if (allocated.ok()) {
      *memory = *std::move(allocated);
      return true;
    }
    *failure = absl::IsUnavailable(allocated.status()) ? MemoryWillComeBack()
                                                       : allocated.status();
    return false;
  };
  if (!place.message_inline &&
      !allocate(AlignPart(request.metadata_bytes) + request.message_bytes,
                &slot->request)) {
    return false;
  }
  if (!place.attachment_inline) {
    const Buffer* const buffer = request.attachment_buffer;
    if (buffer != nullptr && device().pool().Owns(*buffer)) {
      slot->attachment = buffer->Share();
    } else if (!allocate(request.attachment.size(), &slot->attachment)) {
      return false;
    }
  }
  const uint64_t hint = std::min<uint64_t>(request.reply_hint_bytes,
                                           options().max_receive_message_bytes);
  if (hint > kFrameReplyBytes && !lease_waits_) {
    // Without it the call only takes a round trip more.
    absl::Status no_matter;
    AllocateLease(hint, slot, &no_matter);
  }
  return true;
}

bool ClientSession::AllocateLease(uint64_t bytes, Slot* slot,
                                  absl::Status* failure) {
  absl::StatusOr<Buffer> memory = device().pool().Allocate(bytes);
  if (!memory.ok()) {
    *failure = memory.status();
    return false;
  }
  slot->reply = *std::move(memory);
  slot->reply.Extend();  // What is there anyway may be lent.
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

uint32_t ClientSession::WriteRequestFrame(ClientCall* call, Placement place,
                                          uint32_t slot_index, uint8_t* out) {
  const ClientCall::Request& request = call->request();
  const Slot& slot = slots_[slot_index];
  RequestHeader header = {};
  header.frame = PlainHeader(FrameType::kRequest, CallId(slot_index));
  header.frame.header_bytes = sizeof(header);
  header.method_id = request.method_id;
  header.timeout_us = kNoTimeout;
  if (request.deadline != absl::InfiniteFuture()) {
    header.timeout_us = RemainingUs(request.deadline, poller().now());
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
  if (place.message_inline) {
    header.frame.body_bytes += header.message_bytes;
    call->WriteRequest(out + sizeof(header));
  } else {
    // The metadata stand before the message.
    const uint32_t start =
        static_cast<uint32_t>(AlignPart(request.metadata_bytes));
    uint8_t* const metadata =
        slot.request.data() + start - request.metadata_bytes;
    call->WriteRequest(metadata);
    std::memcpy(out + sizeof(header), metadata, request.metadata_bytes);
    header.frame.flags |= kFlagMessageInArena;
    header.message_arena = slot.request.region();
    header.message_offset = slot.request.offset() + start;
  }
  if (!request.attachment.empty()) {
    WriteAttachment(request, place, slot, &header, out);
  }
  std::memcpy(out, &header, sizeof(header));
  return header.frame.header_bytes + header.frame.body_bytes;
}

void ClientSession::WriteAttachment(const ClientCall::Request& request,
                                    Placement place, const Slot& slot,
                                    RequestHeader* header, uint8_t* out) {
  const absl::Span<const uint8_t> attachment = request.attachment;
  header->attachment_bytes = static_cast<uint32_t>(attachment.size());
  if (place.attachment_inline) {
    std::memcpy(out + sizeof(*header) + header->frame.body_bytes,
                attachment.data(), attachment.size());
    header->frame.body_bytes += header->attachment_bytes;
    return;
  }
  if (slot.attachment.data() != attachment.data()) {
    std::memcpy(slot.attachment.data(), attachment.data(), attachment.size());
  }
  header->frame.flags |= kFlagAttachmentInArena;
  header->attachment_arena = slot.attachment.region();
  header->attachment_offset = slot.attachment.offset();
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
    absl::Status failed;
    if (!AllocateLease(slot.lease_bytes, &slot, &failed)) {
      if (absl::IsUnavailable(failed)) failed = MemoryWillComeBack();
      if (failed.ok()) {
        lease_waits_ = true;
        return false;
      }
      Abandon(&slot, failed);
      return true;  // The CANCEL is due of its own.
    }
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
  NoteMemory(&slot);
  Send(sizeof(header), /*signalled=*/false);
  return true;
}

void ClientSession::HandleFrame(FrameType type,
                                absl::Span<const uint8_t> frame) {
  if (type == FrameType::kWelcome) {
    HandleWelcome(frame);
  } else if (state() != ConnectionState::kOpen) {
    ProtocolError("it sent something before its WELCOME");
  } else if (__builtin_expect(assembly_.Concerns(frame), 0)) {
    HandlePart(frame);
  } else if (type == FrameType::kResponse) {
    HandleResponse(frame, /*whole=*/nullptr);
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
  FreeMemory(&slot);
  ++slot.generation;
  free_slots_.push_back(static_cast<uint16_t>(slot_index));
}

void ClientSession::NoteMemory(Slot* slot) {
  if (!slot->holds_memory()) return;
  slot->bytes = static_cast<int64_t>(
      slot->request.size() + slot->attachment.size() + slot->reply.size());
  poller().NoteTransfer(slot->bytes);
}

void ClientSession::FreeMemory(Slot* slot) {
  if (slot->bytes != 0) {
    poller().NoteTransfer(-std::exchange(slot->bytes, 0));
  }
  slot->request.Reset();
  slot->attachment.Reset();
  slot->reply.Reset();
}

void ClientSession::HandlePart(absl::Span<const uint8_t> frame) {
  if (const char* error = assembly_.Add(frame, device().pool())) {
    ProtocolError(error);
  } else if (assembly_.complete()) {
    const Buffer whole = assembly_.Take();
    if (LoadHeader<FrameHeader>(whole.span()).type == FrameType::kResponse) {
      HandleResponse(whole.span(), &whole);
    } else {
      ProtocolError("a server sent a frame that only clients send");
    }
  }
}

void ClientSession::HandleResponse(absl::Span<const uint8_t> frame,
                                   const Buffer* whole) {
  const ResponseHeader header = LoadHeader<ResponseHeader>(frame);
  Slot* const slot = FindSlot(header.frame.call_id);
  if (slot == nullptr) return;
  if (IsMessageAlone(header)) {
    CallResponse response;
    response.message = frame.subspan(sizeof(header));
    response.hint_bytes = header.message_bytes;
    EndCall(slot, response, header.message_bytes);
    return;
  }
  constexpr uint8_t kInLease = kFlagMessageInArena | kFlagAttachmentInArena;
  CallResponse response;
  Buffer lease;
  if ((header.frame.flags & kInLease) != 0 && !slot->lease_wanted) {
    lease = std::move(slot->reply);
  }
  Buffer attachment;
  const char* const error =
      TakeReply(frame, whole, lease.Share(), &response, &attachment);
  if (error != nullptr) {
    ProtocolError(error);
    return;
  }
  // The memory of the reply stays until the call has read it.
  EndCall(slot, response, response.message.size() + attachment.size());
}

void ClientSession::EndCall(Slot* slot, const CallResponse& response,
                            uint64_t bytes) {
  // The slot is free before the call hears of it: its end may start another.
  ClientCall* const call = std::exchange(slot->call, nullptr);
  FreeSlot(SlotIndex(slot));
  if (call == nullptr) return;
  --live_;
  call->slot_ = ClientCall::kIdle;
  if (bytes > options().max_receive_message_bytes) {
    call->OnFailed(TooLargeReply(bytes));
  } else {
    call->OnResponse(response);
  }
}

const char* ClientSession::TakeReply(absl::Span<const uint8_t> frame,
                                     const Buffer* whole, Buffer lease,
                                     CallResponse* response,
                                     Buffer* attachment) {
  const ResponseHeader header = LoadHeader<ResponseHeader>(frame);
  const ResponseBody body = SplitResponse(frame);
  response->code = static_cast<absl::StatusCode>(header.code);
  response->status_message = body.status_message;
  response->metadata = body.metadata;
  response->message = body.message;
  const bool message_in_lease = header.frame.flags & kFlagMessageInArena;
  const bool attachment_in_lease = header.frame.flags & kFlagAttachmentInArena;
  const uint64_t needed =
      LeaseBytes(message_in_lease ? header.message_bytes : 0,
                 attachment_in_lease ? header.attachment_bytes : 0);
  if (needed > lease.size()) {
    return "it wrote a reply that is longer than its lease";
  }
  response->hint_bytes =
      needed > 0 ? needed
                 : uint64_t{header.message_bytes} + header.attachment_bytes;
  if (message_in_lease) {
    response->message = {lease.data(), header.message_bytes};
  }
  if (header.attachment_bytes == 0) return nullptr;
  if (attachment_in_lease) {
    *attachment = std::move(lease);
    attachment->Narrow(message_in_lease ? AlignPart(header.message_bytes) : 0,
                       header.attachment_bytes);
  } else if (whole != nullptr) {
    *attachment = whole->Share();
    attachment->Narrow(whole->size() - header.attachment_bytes,
                       header.attachment_bytes);
  } else {
    *attachment = device().pool().AllocateOrPlain(header.attachment_bytes);
    std::memcpy(attachment->data(), body.attachment.data(),
                header.attachment_bytes);
  }
  response->attachment = attachment;
  return nullptr;
}

void ClientSession::HandleResponsePending(absl::Span<const uint8_t> frame) {
  const ResponsePendingHeader header = LoadHeader<ResponsePendingHeader>(frame);
  Slot* const slot = FindSlot(header.frame.call_id);
  if (slot == nullptr) return;
  const uint64_t needed =
      LeaseBytes(header.message_bytes, header.attachment_bytes);
  if (slot->lease_wanted || needed <= slot->reply.size()) {
    ProtocolError("it asked for a lease that it does not need");
    return;
  }
  // The server is done with the request.
  FreeMemory(slot);
  if (slot->call == nullptr) return;  // Its CANCEL is on its way.
  const uint64_t bytes =
      uint64_t{header.message_bytes} + header.attachment_bytes;
  if (bytes > options().max_receive_message_bytes) {
    Abandon(slot, TooLargeReply(bytes));
    return;
  }
  slot->lease_wanted = true;
  slot->lease_bytes = static_cast<uint32_t>(needed);
  due_.push_back(static_cast<uint16_t>(SlotIndex(slot)));
}

}  // namespace verbena::transport
