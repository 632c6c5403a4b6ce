// ClientCalls: what every call goes through.

#include <memory>
#include <utility>

#include "absl/base/optimization.h"
#include "transport/base/check.h"
#include "transport/base/limits.h"
#include "transport/client/client_calls.h"
#include "transport/client/request_writer.h"
#include "transport/client/response_reader.h"
#include "transport/wire/checksum.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {

bool ClientCalls::SendSmall(ClientCall* call) {
  if (ABSL_PREDICT_FALSE(slots_.full())) return false;
  const ClientCall::Request& request = call->request();
  const uint32_t bytes = static_cast<uint32_t>(
      sizeof(RequestHeader) + request.metadata_bytes + request.message_bytes);
  uint8_t* const out = connection_.BeginCall(bytes, Reserve());
  if (ABSL_PREDICT_FALSE(out == nullptr)) return false;
  const uint32_t call_id = TakeSlot(call);
  MessageStream* const stream = call->stream_;
  WriteSmallRequest(*call, call_id, connection_.poller().now_ns(), out);
  connection_.SendCall(bytes);
  // Sending may have lost the connection, and that ended the call.
  if (ABSL_PREDICT_FALSE(stream != nullptr) && connection_.usable()) {
    stream->Open(&streams_, call_id);
  }
  return true;
}

uint32_t ClientCalls::TakeSlot(ClientCall* call) {
  const uint32_t call_id = slots_.next().call_id;
  slots_.Take(call);
  call->slot_ = ClientCallSlots::IndexOf(call_id);
  ++live_;
  NoteDeadline(call->request().deadline);
  return call_id;
}

ClientCall* ClientCalls::TakeCall(Slot* slot) {
  ClientCall* const call = std::exchange(slot->call, nullptr);
  --live_;
  call->slot_ = ClientCall::kIdle;
  if (ABSL_PREDICT_FALSE(call->stream_ != nullptr)) {
    streams_.Close(call->stream_);
  }
  return call;
}

// Requests beyond a frame, with an attachment, or for a long reply.
bool ClientCalls::SendRequest(ClientCall* call) {
  const ClientCall::Request& request = call->request();
  if (FitsFrame(request)) return SendSmall(call);
  const uint32_t reserve = Reserve();
  if (slots_.full() || !connection_.CanSend(reserve)) return false;
  Placement placement = Place(request);
  // A little more than a frame goes as several, if it can now: cheaper than a
  // READ, and it takes no memory of the arenas.
  bool continued = !placement.all_inline() &&
                   connection_.CanSendContinued(
                       RequestFrameBytes(request, Placement(),
                                         arenas_.lends_through_windows()),
                       reserve);
  if (continued) placement = Placement();
  CallMemory& memory = slots_.next().memory;
  absl::Status failed;
  if (!arenas_.Allocate(request, placement, &memory, &failed)) {
    arenas_.Free(connection_.poller(), &memory);
    if (absl::IsUnavailable(failed)) failed = MemoryWillComeBack();
    if (failed.ok()) return false;
    if (!request.long_metadata.empty()) slots_.RenewNext();
    call->OnFailed(failed);
    return true;
  }
  // The server must know of an arena before a REQUEST names it. What tells it
  // may take the credits that there were, so they are looked at once more.
  bool ready = memory.empty() || arenas_.Announce(connection_);
  bool has_key = arenas_.lends_through_windows() && !memory.reply.empty();
  if (ready && has_key &&
      !Lend(RequestFrameBytes(request, placement, /*has_lease_key=*/true),
            reserve, &memory)) {
    // Without a lease the call only takes a round trip more.
    memory.reply.Reset();
    has_key = false;
  }
  const uint32_t bytes = RequestFrameBytes(request, placement, has_key);
  // Without a key it may fit.
  continued = continued && bytes > connection_.SendRoom();
  uint8_t* out = nullptr;
  ready =
      ready &&
      (continued ? connection_.CanSendContinued(bytes, reserve)
                 : (out = connection_.BeginFrame(bytes, reserve)) != nullptr);
  if (!ready) {
    arenas_.Free(connection_.poller(), &memory);
    return false;
  }
  const uint32_t call_id = TakeSlot(call);
  memory.Note(connection_.poller());
  const int64_t now_ns = connection_.poller().now_ns();
  PartSums sums;
  PartSums* const wanted = connection_.expects_sums() ? &sums : nullptr;
  if (continued) {
    const Buffer frame = arenas_.pool().AllocateOrPlain(bytes);
    WriteRequest(*call, call_id, now_ns, placement, memory, frame.data(),
                 wanted);
    connection_.SendContinued(frame.span());
  } else {
    WriteRequest(*call, call_id, now_ns, placement, memory, out, wanted);
    connection_.Send(bytes, sums);
  }
  return true;
}

bool ClientCalls::Lend(uint64_t frame_bytes, uint32_t spare_credits,
                       CallMemory* memory) {
  const uint32_t frames =
      frame_bytes <= connection_.SendRoom()
          ? 1
          : static_cast<uint32_t>(connection_.SendsFor(frame_bytes));
  return connection_.CanSend(spare_credits + frames - 1) &&
         connection_.send_queue().HasRoomFor(frames, /*without_buffer=*/1) &&
         arenas_.Lend(connection_, memory);
}

Placement ClientCalls::Place(const ClientCall::Request& request) const {
  // Metadata alone always fit.
  CHECK_LE(request.metadata_bytes, kFrameMetadataBytes);
  const uint64_t room =
      connection_.SendRoom() - sizeof(RequestHeader) - request.metadata_bytes -
      (arenas_.lends_through_windows() ? sizeof(LeaseKey) : 0);
  return PlaceParts(room, request.message_bytes, request.attachment.size());
}

void ClientCalls::OnFrame(absl::Span<const uint8_t> frame, bool plain) {
  const FrameType type = HeaderIn<FrameHeader>(frame).type;
  if (ABSL_PREDICT_FALSE(!connection_.usable())) return HandleOpening(frame);
  if (ABSL_PREDICT_FALSE(assembly_.Concerns(frame))) return HandlePart(frame);
  switch (type) {
    case FrameType::kResponse:
      return ABSL_PREDICT_TRUE(plain)
                 ? HandlePlainResponse(frame)
                 : HandleResponse(frame, /*whole=*/nullptr);
    case FrameType::kResponsePending:
      return HandleResponsePending(frame);
    case FrameType::kData:
      return HandleData(frame);
    case FrameType::kWindow:
      return HandleWindow(frame);
    case FrameType::kMetadata:
      return HandleMetadata(frame);
    case FrameType::kMessage:
      return HandleLongMessage(frame);
    case FrameType::kLease:
      return HandleLease(frame);
    case FrameType::kWelcome:
    case FrameType::kCredentials:
      return connection_.ProtocolError("it sent a second WELCOME");
    default:
      connection_.ProtocolError("a server sent a frame that only clients send");
  }
}

ClientCallSlot* ClientCalls::FindSlot(const FrameHeader& header) {
  Slot* const slot = slots_.Find(header.call_id);
  if (ABSL_PREDICT_FALSE(slot == nullptr)) {
    connection_.ProtocolError("it answered a call that is not open");
    return nullptr;
  }
  if (ABSL_PREDICT_FALSE(slot->memory.window != nullptr) &&
      slot->memory.window->bound && !TakeBackLease(header, slot)) {
    return nullptr;
  }
  return slot;
}

bool ClientCalls::TakeBackLease(const FrameHeader& header, Slot* slot) {
  constexpr uint8_t kInLease = kFlagMessageInArena | kFlagAttachmentInArena;
  if ((header.flags & kInLease) != 0) {
    connection_.ProtocolError("it kept the key of the lease that it wrote to");
    return false;
  }
  // The frame and the LEASE may have crossed.
  arenas_.TakeBack(connection_, &slot->memory);
  return connection_.usable();
}

void ClientCalls::HandlePlainResponse(absl::Span<const uint8_t> frame) {
  const auto& header = HeaderIn<ResponseHeader>(frame);
  Slot* const slot = FindSlot(header.frame);
  if (ABSL_PREDICT_FALSE(slot == nullptr)) return;
  if (ABSL_PREDICT_FALSE(slot->metadata != nullptr)) {
    return HandleResponse(frame, /*whole=*/nullptr);
  }
  CallResponse response;
  response.message = frame.subspan(sizeof(header));
  response.hint_bytes = response.message.size();
  EndCall(slot, response, response.message.size());
}

void ClientCalls::EndCall(Slot* slot, const CallResponse& response,
                          uint64_t bytes) {
  // The slot is free before the call hears of it: its end may start another.
  ClientCall* const call =
      ABSL_PREDICT_TRUE(slot->call != nullptr) ? TakeCall(slot) : nullptr;
  if (ABSL_PREDICT_FALSE(!slot->memory.unused())) {
    arenas_.Free(connection_.poller(), &slot->memory);
  }
  if (ABSL_PREDICT_FALSE(slot->quarantined)) EndQuarantine(slot);
  slots_.Free(slot);
  if (ABSL_PREDICT_FALSE(call == nullptr)) return;
  if (ABSL_PREDICT_FALSE(bytes > max_reply_bytes_)) {
    call->OnFailed(TooLargeReply(bytes));
  } else {
    call->OnResponse(response);
  }
}

ClientCallSlot* ClientCalls::FindStream(const FrameHeader& header) {
  Slot* const slot = FindSlot(header);
  // Nobody waits for what the server still sent of a call that was cancelled.
  if (slot == nullptr || slot->call == nullptr) return nullptr;
  if (slot->call->stream_ != nullptr) return slot;
  connection_.ProtocolError(kNoStream);
  return nullptr;
}

void ClientCalls::HandleData(absl::Span<const uint8_t> frame) {
  const auto& header = HeaderIn<FrameHeader>(frame);
  Slot* const slot = FindStream(header);
  if (slot == nullptr) return;
  if ((header.flags & kFlagLastData) != 0) {
    return connection_.ProtocolError("it marked DATA as a client's last");
  }
  MessageStream* const stream = slot->call->stream_;
  const char* const error =
      stream->OnData(frame.subspan(sizeof(header)), /*last=*/false);
  if (error != nullptr) return connection_.ProtocolError(error);
  if (!stream->failure().ok()) return Abandon(slot, stream->failure());
  if (stream->GrantDue()) streams_.Serve(stream);
}

void ClientCalls::HandleWindow(absl::Span<const uint8_t> frame) {
  const auto& header = HeaderIn<WindowHeader>(frame);
  Slot* const slot = FindStream(header.frame);
  if (slot == nullptr) return;
  MessageStream* const stream = slot->call->stream_;
  const char* error = stream->OnWindow(header.limit);
  if (error == nullptr) error = ReleaseSent(slot, header.message_limit);
  if (error != nullptr) return connection_.ProtocolError(error);
  streams_.Serve(stream);
}

void ClientCalls::HandlePart(absl::Span<const uint8_t> frame) {
  // Not in the arenas, where the server may change it while it is read.
  if (const char* error = assembly_.Add(frame, /*pool=*/nullptr)) {
    connection_.ProtocolError(error);
  } else if (assembly_.complete()) {
    const Buffer whole = assembly_.Take();
    if (LoadHeader<FrameHeader>(whole.span()).type == FrameType::kResponse) {
      HandleResponse(whole.span(), &whole);
    } else {
      connection_.ProtocolError("a server sent a frame that only clients send");
    }
  }
}

void ClientCalls::HandleResponse(absl::Span<const uint8_t> frame,
                                 const Buffer* whole) {
  const auto header = LoadHeader<FrameHeader>(frame);
  Slot* const slot = FindSlot(header);
  if (slot == nullptr) return;
  constexpr uint8_t kInLease = kFlagMessageInArena | kFlagAttachmentInArena;
  // A lease that the server asked for and was not sent is none of its.
  Buffer lease;
  if ((header.flags & kInLease) != 0 && !slot->lease_wanted) {
    lease = std::move(slot->memory.reply);
  }
  CallResponse response;
  Buffer message;
  Buffer attachment;
  const char* const error =
      ReadResponse(frame, whole, lease.Share(), arenas_.pool(), &response,
                   &message, &attachment);
  if (error != nullptr) return connection_.ProtocolError(error);
  if (connection_.expects_sums() &&
      !CheckParts(header.flags, message.span(), attachment.span())) {
    return;
  }
  // Keeps alive what `response` points to until the call has read it.
  const std::unique_ptr<IncomingMetadata> metadata = std::move(slot->metadata);
  if (metadata != nullptr && !AddTrailing(*metadata, &response)) return;
  EndCall(slot, response, response.message.size() + attachment.size());
}

// The message is a copy that nobody else can change; the attachment is the
// lease itself.
bool ClientCalls::CheckParts(uint8_t flags, absl::Span<const uint8_t> message,
                             absl::Span<const uint8_t> attachment) {
  const PartSums stated = connection_.received_sums();
  PartSums found = stated;
  // A part that is empty was not taken over, for want of memory.
  if ((flags & kFlagMessageInArena) != 0 && !message.empty()) {
    found.message = Crc32c(message);
  }
  if ((flags & kFlagAttachmentInArena) != 0 && !attachment.empty()) {
    found.attachment = Crc32c(attachment);
  }
  if (found.message != stated.message) {
    connection_.PartDamaged("the message of a reply", message.size(),
                            stated.message, found.message);
  } else if (found.attachment != stated.attachment) {
    connection_.PartDamaged("the attachment of a reply", attachment.size(),
                            stated.attachment, found.attachment);
  }
  return connection_.usable();
}

}  // namespace verbena::transport
