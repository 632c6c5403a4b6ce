// RequestSender: metadata that do not fit the frames of their call.

#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/client/request_sender.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {

// Sends all METADATA, then the REQUEST in the same slot. The slot is out of the
// free ones meanwhile, so no other call can begin there.
bool RequestSender::SendBehindMetadata(ClientCall* call) {
  if (!SendMetadata(call)) return false;
  // The REQUEST takes the slot that is next: this one.
  shared_.slots.Unreserve(
      std::exchange(call->link().metadata_slot, ClientCall::Link::kIdle));
  if (Send(call)) return true;
  // Nothing has begun, so that the same one comes back.
  call->link().metadata_slot = shared_.slots.Reserve();
  return false;
}

// Goes on where the last try ended, because each frame waits for its own
// credit. So long metadata also go over a connection with a single credit.
bool RequestSender::SendMetadata(ClientCall* call) {
  if (call->link().metadata_slot == ClientCall::Link::kIdle) {
    if (shared_.slots.full()) return false;
    call->link().metadata_slot = shared_.slots.Reserve();
    call->link().metadata_sent = 0;
  }
  const absl::Span<const uint8_t> all = call->request().long_metadata;
  while (call->link().metadata_sent < all.size()) {
    FrameHeader header = Connection::PlainHeader(
        FrameType::kMetadata,
        shared_.slots.at(call->link().metadata_slot).call_id);
    const uint32_t rest =
        static_cast<uint32_t>(all.size()) - call->link().metadata_sent;
    header.body_bytes = std::min<uint32_t>(
        rest, connection_.SendRoom() - uint32_t{sizeof(header)});
    if (header.body_bytes == rest) header.flags = kFlagMetadataEnd;
    const uint32_t bytes = uint32_t{sizeof(header)} + header.body_bytes;
    uint8_t* const out = connection_.BeginFrame(bytes, sent_.Reserve());
    if (out == nullptr) return false;
    std::memcpy(out, &header, sizeof(header));
    std::memcpy(out + sizeof(header), all.data() + call->link().metadata_sent,
                header.body_bytes);
    call->link().metadata_sent += header.body_bytes;
    connection_.Send(bytes);
    if (!connection_.usable()) return false;
  }
  return true;
}

void RequestSender::DropMetadata(ClientCall* call) {
  if (call->link().metadata_slot == ClientCall::Link::kIdle) return;
  shared_.slots.Unreserve(
      std::exchange(call->link().metadata_slot, ClientCall::Link::kIdle));
  // The server drops the METADATA of a slot when a frame of another generation
  // comes there.
  shared_.slots.RenewNext();
}

}  // namespace verbena::transport
