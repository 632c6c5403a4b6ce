// ClientCalls: metadata that do not fit the frames of their call.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "transport/client/client_calls.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {

bool ClientCalls::SendBehindMetadata(ClientCall* call) {
  if (!SendMetadata(call)) return false;
  // The REQUEST takes the slot that is next: this one.
  slots_.Unreserve(std::exchange(call->metadata_slot_, ClientCall::kIdle));
  if (SendRequest(call)) return true;
  // Nothing has begun, so that the same one comes back.
  call->metadata_slot_ = slots_.Reserve();
  return false;
}

bool ClientCalls::SendMetadata(ClientCall* call) {
  if (call->metadata_slot_ == ClientCall::kIdle) {
    if (slots_.full()) return false;
    call->metadata_slot_ = slots_.Reserve();
    call->metadata_sent_ = 0;
  }
  const absl::Span<const uint8_t> all = call->request().long_metadata;
  while (call->metadata_sent_ < all.size()) {
    FrameHeader header = Connection::PlainHeader(
        FrameType::kMetadata, slots_.at(call->metadata_slot_).call_id);
    const uint32_t rest =
        static_cast<uint32_t>(all.size()) - call->metadata_sent_;
    header.body_bytes = std::min<uint32_t>(
        rest, connection_.SendRoom() - uint32_t{sizeof(header)});
    if (header.body_bytes == rest) header.flags = kFlagMetadataEnd;
    const uint32_t bytes = uint32_t{sizeof(header)} + header.body_bytes;
    uint8_t* const out = connection_.BeginFrame(bytes, Reserve());
    if (out == nullptr) return false;
    std::memcpy(out, &header, sizeof(header));
    std::memcpy(out + sizeof(header), all.data() + call->metadata_sent_,
                header.body_bytes);
    call->metadata_sent_ += header.body_bytes;
    connection_.Send(bytes);
    if (!connection_.usable()) return false;
  }
  return true;
}

void ClientCalls::DropMetadata(ClientCall* call) {
  if (call->metadata_slot_ == ClientCall::kIdle) return;
  slots_.Unreserve(std::exchange(call->metadata_slot_, ClientCall::kIdle));
  slots_.RenewNext();
}

bool ClientCalls::AddTrailing(const IncomingMetadata& metadata,
                              CallResponse* response) {
  if (!metadata.trailing_whole) return true;
  if (!response->metadata.empty()) {
    connection_.ProtocolError("it sent trailing metadata twice");
    return false;
  }
  response->metadata = absl::MakeConstSpan(
      reinterpret_cast<const uint8_t*>(metadata.trailing.data()),
      metadata.trailing.size());
  return true;
}

void ClientCalls::HandleMetadata(absl::Span<const uint8_t> frame) {
  const auto& header = HeaderIn<FrameHeader>(frame);
  // METADATA ends no lease, but FindSlot() may take the call's lease back.
  Slot* const slot = slots_.Find(header.call_id);
  if (slot == nullptr) {
    return connection_.ProtocolError("it sent METADATA of no open call");
  }
  // Nobody waits for those of a call that was cancelled.
  if (slot->call == nullptr) return;
  if (slot->metadata == nullptr) {
    slot->metadata = std::make_unique<IncomingMetadata>();
  }
  const bool initial = (header.flags & kFlagInitialMetadata) != 0;
  IncomingMetadata& incoming = *slot->metadata;
  bool& whole = initial ? incoming.initial_whole : incoming.trailing_whole;
  std::string& text = initial ? incoming.initial : incoming.trailing;
  // The reader of the messages may be looking at the initial metadata by now.
  if (initial && slot->call->stream_ != nullptr &&
      slot->call->stream_->has_received()) {
    return connection_.ProtocolError(
        "it sent initial METADATA behind a message of the stream");
  }
  if (whole) return connection_.ProtocolError("it sent METADATA twice");
  const absl::Span<const uint8_t> body = FrameBody(frame);
  if (body.size() > connection_.options().max_metadata_bytes - text.size()) {
    return connection_.ProtocolError(
        "it sent more metadata than this client takes");
  }
  text.append(reinterpret_cast<const char*>(body.data()), body.size());
  whole = (header.flags & kFlagMetadataEnd) != 0;
  if (!initial || !whole) return;
  const std::string metadata = std::exchange(text, std::string());
  const absl::Status status = slot->call->OnInitialMetadata(
      {reinterpret_cast<const uint8_t*>(metadata.data()), metadata.size()});
  if (!status.ok()) Abandon(slot, status);
}

}  // namespace verbena::transport
