// Connection: frames that go as several SENDs.

#include <algorithm>
#include <cstring>

#include "transport/session/connection.h"

namespace verbena::transport {

bool Connection::CanSendContinued(uint64_t frame_bytes,
                                  uint32_t spare_credits) {
  if (frame_bytes >
      std::min(options_.continued_bytes_max, kContinuedBytesMax)) {
    return false;
  }
  const uint32_t sends = static_cast<uint32_t>(SendsFor(frame_bytes));
  return CanSend(spare_credits + sends - 1) && send_.HasRoomFor(sends);
}

void Connection::SendContinued(absl::Span<uint8_t> frame,
                               uint32_t invalidates) {
  FrameHeader header;
  std::memcpy(&header, frame.data(), sizeof(header));
  header.flags |= kFlagContinued;
  std::memcpy(frame.data(), &header, sizeof(header));
  const size_t first = std::min<size_t>(SendRoom(), frame.size());
  uint8_t* out = BeginFrame(static_cast<uint32_t>(first), /*spare_credits=*/0);
  if (out == nullptr) return;
  std::memcpy(out, frame.data(), first);
  Send(static_cast<uint32_t>(first), invalidates);
  frame.remove_prefix(first);
  while (!frame.empty()) {
    const size_t bytes =
        std::min<size_t>(SendRoom() - sizeof(header), frame.size());
    // Null only if the connection has just been lost.
    out = BeginFrame(static_cast<uint32_t>(sizeof(header) + bytes),
                     /*spare_credits=*/0);
    if (out == nullptr) return;
    FrameHeader next = PlainHeader(FrameType::kContinuation, header.call_id);
    next.body_bytes = static_cast<uint32_t>(bytes);
    std::memcpy(out, &next, sizeof(next));
    std::memcpy(out + sizeof(next), frame.data(), bytes);
    Send(static_cast<uint32_t>(sizeof(next) + bytes));
    frame.remove_prefix(bytes);
  }
}

}  // namespace verbena::transport
