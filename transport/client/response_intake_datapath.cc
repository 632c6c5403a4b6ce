#include <memory>
#include <utility>

#include "absl/base/optimization.h"
#include "transport/client/response_intake.h"
#include "transport/client/response_reader.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {

void ResponseIntake::HandlePlain(absl::Span<const uint8_t> frame) {
  const auto& header = HeaderIn<ResponseHeader>(frame);
  ClientCallSlot* const slot = sent_.Find(header.frame);
  if (ABSL_PREDICT_FALSE(slot == nullptr)) return;
  // Trailing metadata may have come before, so the reply is not all in
  // the frame.
  if (ABSL_PREDICT_FALSE(slot->metadata != nullptr)) {
    return Handle(frame, /*whole=*/nullptr);
  }
  CallResponse response;
  response.message = frame.subspan(sizeof(header));
  response.hint_bytes = response.message.size();
  sent_.End(slot, response, response.message.size());
}

// Takes the parts out of frame and lease, compares their sums, and only then
// ends the call: bytes that differ must reach nobody.
void ResponseIntake::Handle(absl::Span<const uint8_t> frame,
                            const Buffer* whole) {
  const auto header = LoadHeader<FrameHeader>(frame);
  ClientCallSlot* const slot = sent_.Find(header);
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
      ReadResponse(frame, whole, lease.Share(), shared_.arenas, &response,
                   &message, &attachment);
  if (error != nullptr) return connection_.ProtocolError(error);
  if (connection_.expects_sums() &&
      !CheckParts(header.flags, message.span(), attachment.span())) {
    return;
  }
  if (connection_.opener() != nullptr && (header.flags & kInLease) != 0 &&
      !OpenParts(header.flags, lease, message.span(), attachment.span())) {
    return;
  }
  // Keeps alive what `response` points to until the call has read it.
  const std::unique_ptr<IncomingMetadata> metadata = std::move(slot->metadata);
  if (metadata != nullptr && !AddTrailing(*metadata, &response)) return;
  sent_.End(slot, response, response.message.size() + attachment.size());
}

}  // namespace verbena::transport
