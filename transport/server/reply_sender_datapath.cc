#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/base/optimization.h"
#include "transport/base/check.h"
#include "transport/server/reply_sender.h"

namespace verbena::transport {

// Looks at all that could keep the reply before it begins a frame. Those that
// have to wait for anything take the long way, by Finish().
uint8_t* ReplySender::BeginPlain(ServerCall* call, uint64_t message_bytes) {
  CHECK(call->is_handled());
  // A cancelled call has another answer, and frames that wait go first.
  if (!connection_.usable() || call->cancelled() ||
      message_bytes > plain_message_max_ || !shared_.lines.frames.empty()) {
    return nullptr;
  }
  const uint32_t bytes = static_cast<uint32_t>(message_bytes);
  CallReply& reply = call->reply();
  // A SEND invalidates a single key, so a reply with a lease's key goes in no
  // train.
  uint8_t* const out =
      ABSL_PREDICT_TRUE(reply.lease_rkey == 0)
          ? connection_.BeginCall(kHeaderBytes + bytes, /*spare_credits=*/0)
          : connection_.BeginFrame(kHeaderBytes + bytes, /*spare_credits=*/0);
  if (ABSL_PREDICT_FALSE(out == nullptr)) return nullptr;
  // In place: nothing is cleared that is written next.
  *reinterpret_cast<ResponseHeader*>(out) = {
      .frame = {.type = FrameType::kResponse,
                .flags = 0,
                .header_bytes = sizeof(ResponseHeader),
                .credit_limit = 0,
                .call_id = call->id(),
                .body_bytes = bytes},
      .code = static_cast<uint32_t>(absl::StatusCode::kOk),
      .status_message_bytes = 0,
      .metadata_bytes = 0,
      .message_bytes = bytes,
      .attachment_bytes = 0};
  reply.plain_bytes = bytes;
  return out + sizeof(ResponseHeader);
}

void ReplySender::SendPlain(ServerCall* call) {
  const CallReply& reply = call->reply();
  shared_.slots.TakeBack(call);
  // The slot may be used again as soon as the client has the RESPONSE.
  shared_.slots.FreePlain(call);
  connection_.SendCall(kHeaderBytes + reply.plain_bytes, reply.lease_rkey);
  // Another call may wait for the memory that this one held.
  connection_.SendWaitingSoon();
}

// Chooses the way by the lengths: in one RESPONSE, in a continued one, or
// WRITTEN into a lease, which has to be asked for if the client has lent none.
void ReplySender::Send(ServerCall* call) {
  CallReply& reply = call->reply();
  const ServerReply& content = reply.content;
  CHECK(content.status.ok() ||
        (content.message_bytes == 0 && content.attachment.empty()))
      << "a call that fails has no message";
  reply.attachment_bytes = static_cast<uint32_t>(content.attachment.size());
  // Metadata alone always fit.
  CHECK_LE(content.metadata_bytes, kFrameMetadataBytes);
  reply.place = PlaceParts(Room() - content.metadata_bytes,
                           content.message_bytes, content.attachment.size());
  if (reply.place.all_inline()) {
    QueueFrame(call, ServerCallState::kReplyQueued);
  } else if (reply.lease_bytes < reply.LeaseNeeded(seals())) {
    if (shared_.lines.frames.empty() && !ServerMetadata::IsDue(*call) &&
        SendContinued(call)) {
      return;
    }
    // The call takes memory here only once there is memory at the client.
    // Otherwise replies could hold all of ours while they wait for a lease, and
    // requests that wait for ours all of the client's.
    QueueFrame(call, ServerCallState::kPendingQueued);
  } else {
    AwaitMemory(call);
  }
}

// No frame overtakes those that wait for a credit.
void ReplySender::QueueFrame(ServerCall* call, ServerCallState state) {
  call->Transition(state);
  ServerLines& lines = shared_.lines;
  if (!lines.frames.empty() || !SendQueued(call)) {
    lines.frames.PushBack(call);
    lines.NoteExpiry(*call);
    connection_.NoteWaiting();
  }
}

void ReplySender::SendFrames() {
  // Each is taken out before it is tried: sending may lose the connection, and
  // that clears the queue.
  base::IntrusiveList<ServerCall>& line = shared_.lines.frames;
  while (!line.empty() && connection_.usable()) {
    ServerCall* const call = line.front();
    line.Remove(call);
    if (SendQueued(call)) continue;
    line.PushFront(call);
    return;
  }
}

// Sends METADATA that are due before the RESPONSE. They may take several
// rounds, because each frame waits for its own credit.
bool ReplySender::SendQueued(ServerCall* call) {
  const bool pending = call->state() == ServerCallState::kPendingQueued;
  if (!pending && ABSL_PREDICT_FALSE(ServerMetadata::IsDue(*call)) &&
      !metadata_.Send(call)) {
    return !connection_.usable();  // Then the call is gone.
  }
  uint8_t* const out = connection_.BeginFrame(
      pending ? sizeof(ResponsePendingHeader) : FrameBytes(call),
      /*spare_credits=*/0);
  if (out == nullptr) return false;
  if (pending) {
    SendPending(call, out);
  } else {
    SendResponse(call, out);
  }
  return true;
}

// Asks for a lease for the parts that do not fit the frame. StallGuard ends the
// call if none comes.
void ReplySender::SendPending(ServerCall* call, uint8_t* out) {
  CallReply& reply = call->reply();
  ResponsePendingHeader header = {};
  header.frame =
      Connection::PlainHeader(FrameType::kResponsePending, call->id());
  header.frame.header_bytes = sizeof(header);
  if (!reply.place.message_inline) {
    header.message_bytes = static_cast<uint32_t>(reply.content.message_bytes);
  }
  if (!reply.place.attachment_inline) {
    header.attachment_bytes = reply.attachment_bytes;
  }
  std::memcpy(out, &header, sizeof(header));
  call->Transition(ServerCallState::kAwaitsLease);
  reply.lease_asked = true;
  reply.lease_asked_time = connection_.poller().now();
  shared_.lines.leases.PushBack(call);
  shared_.lines.NoteExpiry(*call);
  // The lease was too short, if there was one: its key goes back.
  connection_.Send(sizeof(header), std::exchange(reply.lease_rkey, 0));
}

// Frees the call before the frame is sent, because sending may lose the
// connection, and that ends all open calls.
void ReplySender::SendResponse(ServerCall* call, uint8_t* out) {
  const uint32_t bytes = WriteResponse(call, out);
  const CallReply& reply = call->reply();
  const uint32_t lease_rkey = reply.lease_rkey;
  const PartSums parts = reply.written ? reply.written_sums : PartSums();
  if (reply.written) {
    connection_.send_queue().set_first_chunk(reply.first_chunk);
  }
  ReplyWriter* const writer = EndCall(call);
  connection_.Send(bytes, parts, lease_rkey);
  if (writer != nullptr) writer->OnReplyDone();
}

bool ReplySender::SendContinued(ServerCall* call) {
  const uint32_t bytes = FrameBytes(call);  // With all of the reply.
  if (!connection_.CanSendContinued(bytes, /*spare_credits=*/0)) return false;
  // Nothing lies in a lease: all parts go in the frame.
  call->reply().place = Placement();
  const Buffer frame = connection_.memory().pool().AllocateOrPlain(bytes);
  WriteResponse(call, frame.data());
  const uint32_t lease_rkey = call->reply().lease_rkey;
  ReplyWriter* const writer = EndCall(call);
  connection_.SendContinued(frame.span(), lease_rkey);
  if (writer != nullptr) writer->OnReplyDone();
  return true;
}

ReplyWriter* ReplySender::EndCall(ServerCall* call) {
  // The writer hears last: what it does may send something else.
  ReplyWriter* const writer =
      std::exchange(call->reply().content.writer, nullptr);
  // The slot may be used again as soon as the client has the RESPONSE.
  shared_.slots.Free(call);
  return writer;
}

absl::string_view ReplySender::StatusText(const ServerReply& reply) const {
  if (reply.status.ok()) return {};
  return reply.status.message().substr(
      0, std::min<uint64_t>(kMaxStatusMessageBytes, Room()));
}

uint32_t ReplySender::FrameBytes(ServerCall* call) const {
  const CallReply& reply = call->reply();
  const ServerReply& content = reply.content;
  uint64_t bytes =
      kHeaderBytes + StatusText(content).size() + content.metadata_bytes;
  // Parts that were WRITTEN into the lease are not in the frame.
  if (!reply.written || reply.place.message_inline) {
    bytes += content.message_bytes;
  }
  if (!reply.written || reply.place.attachment_inline) {
    bytes += content.attachment.size();
  }
  return static_cast<uint32_t>(bytes);
}

// Writes the parts behind the room for the header, which is copied last, when
// its flags and lengths are known.
uint32_t ReplySender::WriteResponse(ServerCall* call, uint8_t* out) {
  CallReply& reply = call->reply();
  const ServerReply& content = reply.content;
  const absl::string_view text = StatusText(content);
  ResponseHeader header = {};
  header.frame = Connection::PlainHeader(FrameType::kResponse, call->id());
  header.frame.header_bytes = sizeof(header);
  if (std::exchange(reply.unprocessed, false)) {
    header.frame.flags = kFlagUnprocessed;
  }
  header.code = static_cast<uint32_t>(content.status.code());
  header.status_message_bytes = static_cast<uint16_t>(text.size());
  header.metadata_bytes = static_cast<uint16_t>(content.metadata_bytes);
  header.message_bytes = static_cast<uint32_t>(content.message_bytes);
  header.attachment_bytes = reply.attachment_bytes;
  uint8_t* const body = out + sizeof(header);
  if (!text.empty()) std::memcpy(body, text.data(), text.size());
  const uint8_t* const end =
      WriteParts(&reply, body + text.size(), &header.frame.flags);
  header.frame.body_bytes = static_cast<uint32_t>(end - body);
  std::memcpy(out, &header, sizeof(header));
  return static_cast<uint32_t>(end - out);
}

// Copies the parts that were not WRITTEN. Metadata and message come from the
// writer in one piece, unless the message was WRITTEN: then reply->metadata
// has them.
uint8_t* ReplySender::WriteParts(CallReply* reply, uint8_t* out,
                                 uint8_t* flags) {
  const ServerReply& content = reply->content;
  if (reply->written && !reply->place.message_inline) {
    *flags |= kFlagMessageInArena;
    std::memcpy(out, reply->metadata.data(), reply->metadata.size());
    out += reply->metadata.size();
  } else {
    const uint64_t bytes = content.metadata_bytes + content.message_bytes;
    if (!content.buffer.empty()) {
      std::memcpy(out, content.buffer.data(), bytes);
    } else if (content.writer != nullptr) {
      content.writer->WriteReply(out);
    }
    out += bytes;
  }
  if (reply->written && !reply->place.attachment_inline) {
    *flags |= kFlagAttachmentInArena;
  } else if (!content.attachment.empty()) {
    std::memcpy(out, content.attachment.data(), content.attachment.size());
    out += content.attachment.size();
  }
  return out;
}

}  // namespace verbena::transport
