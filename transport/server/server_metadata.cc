#include "transport/server/server_metadata.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {

// Collects the METADATA of a call in its slot, which is free until the REQUEST.
// Those of another generation are dropped, because the client has given that
// call up.
void ServerMetadata::Handle(absl::Span<const uint8_t> frame) {
  const auto& header = HeaderIn<FrameHeader>(frame);
  if ((header.flags & kFlagInitialMetadata) != 0) {
    return connection_.ProtocolError("a client sent initial METADATA");
  }
  ServerCall* const call = shared_.slots.FindFree(header.call_id);
  if (call == nullptr) return;
  using Ahead = CallMetadata::Ahead;
  CallMetadata& metadata = call->metadata_part();
  if (metadata.ahead == Ahead::kNone || call->id() != header.call_id) {
    call->set_id(header.call_id);
    metadata.ahead = Ahead::kNone;
    metadata.text.clear();
  }
  if (metadata.ahead == Ahead::kAll) {
    return connection_.ProtocolError("it sent METADATA twice");
  }
  const absl::Span<const uint8_t> body = FrameBody(frame);
  // Before anything is kept: the limit bounds what a client makes this side
  // keep for a call that has hardly begun.
  if (body.size() >
      connection_.options().max_metadata_bytes - metadata.text.size()) {
    return connection_.ProtocolError(
        "it sent more metadata than this server takes");
  }
  metadata.text.append(reinterpret_cast<const char*>(body.data()), body.size());
  metadata.ahead =
      (header.flags & kFlagMetadataEnd) != 0 ? Ahead::kAll : Ahead::kPart;
}

// Metadata that came ahead must have ended, and the REQUEST must have none
// beside them. Those of another call are dropped.
bool ServerMetadata::Take(uint32_t call_id,
                          absl::Span<const uint8_t> inline_metadata,
                          ServerCall* call) {
  using Ahead = CallMetadata::Ahead;
  CallMetadata& metadata = call->metadata_part();
  const Ahead ahead = std::exchange(metadata.ahead, Ahead::kNone);
  if (ahead != Ahead::kNone && call->id() == call_id) {
    if (ahead == Ahead::kAll && inline_metadata.empty()) return true;
    connection_.ProtocolError("it began a call amid its metadata");
    return false;
  }
  if (inline_metadata.size() > connection_.options().max_metadata_bytes) {
    connection_.ProtocolError("it sent more metadata than this server takes");
    return false;
  }
  call->ReleaseMetadata();
  metadata.text.clear();
  metadata.text.append(reinterpret_cast<const char*>(inline_metadata.data()),
                       inline_metadata.size());
  return true;
}

void ServerMetadata::QueueInitial(ServerCall* call, std::string metadata) {
  CallMetadata& part = call->metadata_part();
  CHECK(call->is_handled() && !part.initial_due);
  // Nobody waits for them any more.
  if (!connection_.usable() || call->cancelled()) return;
  part.initial = std::move(metadata);
  part.initial_due = true;
  part.sent = 0;
  shared_.lines.initial_metadata.PushBack(call);
  connection_.NoteWaiting();
  connection_.SendWaitingSoon();
}

void ServerMetadata::SendInitial() {
  // Each is taken out before it is tried: sending may lose the connection, and
  // that clears the queue.
  ServerLines& lines = shared_.lines;
  while (!lines.initial_metadata.empty() && connection_.usable()) {
    ServerCall* const call = lines.initial_metadata.front();
    lines.initial_metadata.Remove(call);
    const bool sent = Send(call);
    if (!connection_.usable()) return;
    if (!sent) return lines.initial_metadata.PushFront(call);
    // The handler has finished meanwhile, so the call goes on to the line that
    // ends its stream.
    if (call->state() == ServerCallState::kDraining) {
      lines.draining.PushBack(call);
    }
  }
}

// Sends initial metadata before trailing ones. `sent` counts the bytes of the
// kind under way, so a call goes on where it had to stop.
bool ServerMetadata::Send(ServerCall* call) {
  CallMetadata& part = call->metadata_part();
  if (part.initial_due) {
    if (!Send(call, part.initial, kFlagInitialMetadata)) {
      return false;
    }
    part.initial_due = false;
    part.initial = std::string();
    part.sent = 0;
    // The client takes no initial metadata behind the first message, so the
    // writes were held back until now.
    if (call->stream() != nullptr) call->stream()->ReleaseWrites();
  }
  if (call->state() != ServerCallState::kReplyQueued ||
      call->reply().content.long_metadata.empty()) {
    return true;
  }
  if (!Send(call, call->reply().content.long_metadata, /*flags=*/0)) {
    return false;
  }
  call->reply().content.long_metadata = std::string();
  return true;
}

// Cuts the metadata into frames, each of which takes a credit. Metadata that
// are empty go too, in one frame.
bool ServerMetadata::Send(ServerCall* call, const std::string& metadata,
                          uint8_t flags) {
  size_t& sent = call->metadata_part().sent;
  FrameHeader header = {};
  do {
    header = Connection::PlainHeader(FrameType::kMetadata, call->id());
    const size_t rest = metadata.size() - sent;
    header.body_bytes = static_cast<uint32_t>(
        std::min<size_t>(rest, connection_.SendRoom() - sizeof(header)));
    header.flags = flags;
    if (header.body_bytes == rest) header.flags |= kFlagMetadataEnd;
    const uint32_t bytes = uint32_t{sizeof(header)} + header.body_bytes;
    uint8_t* const out = connection_.BeginFrame(bytes, /*spare_credits=*/0);
    if (out == nullptr) return false;
    std::memcpy(out, &header, sizeof(header));
    std::memcpy(out + sizeof(header), metadata.data() + sent,
                header.body_bytes);
    sent += header.body_bytes;
    connection_.Send(bytes);
    // If that has lost the connection, the call may be gone.
    if (!connection_.usable()) return false;
  } while ((header.flags & kFlagMetadataEnd) == 0);
  return true;
}

absl::Status ServerMetadata::Check(absl::string_view kind,
                                   uint64_t bytes) const {
  const uint32_t most = connection_.peer_limits().max_metadata_bytes;
  if (bytes <= most) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      kind, " metadata of ", bytes,
      " bytes are larger than the client's max_metadata_bytes, ", most));
}

}  // namespace verbena::transport
