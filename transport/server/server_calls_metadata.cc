// ServerCalls: metadata that do not go in REQUEST and RESPONSE.

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/server/server_calls.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {

void ServerCalls::HandleMetadata(absl::Span<const uint8_t> frame) {
  const auto& header = HeaderIn<FrameHeader>(frame);
  if ((header.flags & kFlagInitialMetadata) != 0) {
    return connection_.ProtocolError("a client sent initial METADATA");
  }
  ServerCall* const call = FindFreeCall(header.call_id);
  if (call == nullptr) return;
  using Ahead = ServerCall::Ahead;
  if (call->metadata_ahead_ == Ahead::kNone ||
      call->call_id_ != header.call_id) {
    call->call_id_ = header.call_id;
    call->metadata_ahead_ = Ahead::kNone;
    call->metadata_.clear();
  }
  if (call->metadata_ahead_ == Ahead::kAll) {
    return connection_.ProtocolError("it sent METADATA twice");
  }
  const absl::Span<const uint8_t> body = FrameBody(frame);
  if (body.size() >
      connection_.options().max_metadata_bytes - call->metadata_.size()) {
    return connection_.ProtocolError(
        "it sent more metadata than this server takes");
  }
  call->metadata_.append(reinterpret_cast<const char*>(body.data()),
                         body.size());
  call->metadata_ahead_ =
      (header.flags & kFlagMetadataEnd) != 0 ? Ahead::kAll : Ahead::kPart;
}

bool ServerCalls::TakeMetadata(uint32_t call_id,
                               absl::Span<const uint8_t> inline_metadata,
                               ServerCall* call) {
  using Ahead = ServerCall::Ahead;
  const Ahead ahead = std::exchange(call->metadata_ahead_, Ahead::kNone);
  if (ahead != Ahead::kNone && call->call_id_ == call_id) {
    if (ahead == Ahead::kAll && inline_metadata.empty()) return true;
    connection_.ProtocolError("it began a call amid its metadata");
    return false;
  }
  if (inline_metadata.size() > connection_.options().max_metadata_bytes) {
    connection_.ProtocolError("it sent more metadata than this server takes");
    return false;
  }
  call->ReleaseMetadata();
  call->metadata_.clear();
  call->metadata_.append(reinterpret_cast<const char*>(inline_metadata.data()),
                         inline_metadata.size());
  return true;
}

void ServerCalls::SendInitialMetadata(ServerCall* call, std::string metadata) {
  CHECK(call->state_ == State::kHandling && !call->initial_due_);
  if (!connection_.usable() || call->cancelled()) return;
  call->initial_metadata_ = std::move(metadata);
  call->initial_due_ = true;
  call->metadata_sent_ = 0;
  initial_waiters_.PushBack(call);
  connection_.NoteWaiting();
  connection_.SendWaitingSoon();
}

void ServerCalls::SendInitialMetadata() {
  // Each is taken out before it is tried: sending may lose the connection, and
  // that clears the queue.
  while (!initial_waiters_.empty() && connection_.usable()) {
    ServerCall* const call = initial_waiters_.front();
    initial_waiters_.Remove(call);
    const bool sent = SendMetadata(call);
    if (!connection_.usable()) return;
    if (!sent) return initial_waiters_.PushFront(call);
    if (call->state_ == State::kDraining) draining_.PushBack(call);
  }
}

bool ServerCalls::SendMetadata(ServerCall* call) {
  if (call->initial_due_) {
    if (!SendMetadata(call, call->initial_metadata_, kFlagInitialMetadata)) {
      return false;
    }
    call->initial_due_ = false;
    call->initial_metadata_ = std::string();
    call->metadata_sent_ = 0;
    if (call->stream_ != nullptr) call->stream_->ReleaseWrites();
  }
  if (call->state_ != State::kReplyQueued ||
      call->reply_.long_metadata.empty()) {
    return true;
  }
  if (!SendMetadata(call, call->reply_.long_metadata, /*flags=*/0)) {
    return false;
  }
  call->reply_.long_metadata = std::string();
  return true;
}

bool ServerCalls::SendMetadata(ServerCall* call, const std::string& metadata,
                               uint8_t flags) {
  FrameHeader header = {};
  do {
    header = Connection::PlainHeader(FrameType::kMetadata, call->call_id_);
    const size_t rest = metadata.size() - call->metadata_sent_;
    header.body_bytes = static_cast<uint32_t>(
        std::min<size_t>(rest, connection_.SendRoom() - sizeof(header)));
    header.flags = flags;
    if (header.body_bytes == rest) header.flags |= kFlagMetadataEnd;
    const uint32_t bytes = uint32_t{sizeof(header)} + header.body_bytes;
    uint8_t* const out = connection_.BeginFrame(bytes, /*spare_credits=*/0);
    if (out == nullptr) return false;
    std::memcpy(out, &header, sizeof(header));
    std::memcpy(out + sizeof(header), metadata.data() + call->metadata_sent_,
                header.body_bytes);
    call->metadata_sent_ += header.body_bytes;
    connection_.Send(bytes);
    // If that has lost the connection, the call may be gone.
    if (!connection_.usable()) return false;
  } while ((header.flags & kFlagMetadataEnd) == 0);
  return true;
}

absl::Status ServerCalls::CheckMetadata(absl::string_view kind,
                                        uint64_t bytes) const {
  const uint32_t most = connection_.peer_limits().max_metadata_bytes;
  if (bytes <= most) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      kind, " metadata of ", bytes,
      " bytes are larger than the client's max_metadata_bytes, ", most));
}

uint32_t ServerCall::client_max_metadata_bytes() const {
  return calls_.connection().peer_limits().max_metadata_bytes;
}

absl::Status ServerCall::CheckMetadata(absl::string_view kind,
                                       uint64_t bytes) const {
  return calls_.CheckMetadata(kind, bytes);
}

void ServerCall::SendInitialMetadata(std::string metadata) {
  calls_.SendInitialMetadata(this, std::move(metadata));
}

}  // namespace verbena::transport
