#include "transport/client/response_intake.h"

#include <memory>
#include <string>
#include <utility>

#include "transport/streams/message_stream.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {

void ResponseIntake::HandlePart(absl::Span<const uint8_t> frame) {
  // Not in the arenas, where the server may change it while it is read.
  if (const char* error = assembly_.Add(frame, /*pool=*/nullptr)) {
    return connection_.ProtocolError(error);
  }
  if (!assembly_.complete()) return;
  const Buffer whole = assembly_.Take();
  if (LoadHeader<FrameHeader>(whole.span()).type != FrameType::kResponse) {
    return connection_.ProtocolError(
        "a server sent a frame that only clients send");
  }
  Handle(whole.span(), &whole);
}

bool ResponseIntake::AddTrailing(const IncomingMetadata& metadata,
                                 CallResponse* response) {
  // The server has thought better of metadata that did not end, and the
  // RESPONSE goes without them.
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

// Collects the METADATA of a call until they end. Initial ones go to the call
// at once, trailing ones wait for the RESPONSE.
void ResponseIntake::HandleMetadata(absl::Span<const uint8_t> frame) {
  const auto& header = HeaderIn<FrameHeader>(frame);
  // METADATA ends no lease, but SentCalls::Find() may take the call's lease
  // back.
  ClientCallSlot* const slot = shared_.slots.Find(header.call_id);
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
  if (initial && slot->call->stream() != nullptr &&
      slot->call->stream()->has_received()) {
    return connection_.ProtocolError(
        "it sent initial METADATA behind a message of the stream");
  }
  if (whole) return connection_.ProtocolError("it sent METADATA twice");
  const absl::Span<const uint8_t> body = FrameBody(frame);
  // Before anything is kept: the limit bounds what a server can make this
  // side keep.
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
  if (!status.ok()) sent_.Abandon(slot, status);
}

}  // namespace verbena::transport
