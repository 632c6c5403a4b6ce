// Connection: frames that are sealed, or end with checksums.

#include <cstring>

#include "absl/base/optimization.h"
#include "transport/session/connection.h"
#include "transport/wire/checksum.h"
#include "transport/wire/frame_codec.h"

namespace verbena::transport {
namespace {

// Whether a client may have sent the frame before it read the WELCOME.
bool PrecedesSums(absl::Span<const uint8_t> frame) {
  // A frame with sums is longer than its header says, which FrameError() finds.
  if (FrameError(frame) != nullptr) return false;
  switch (HeaderIn<FrameHeader>(frame).type) {
    case FrameType::kCredentials:
    case FrameType::kGrant:
    case FrameType::kPing:
    case FrameType::kPong:
    case FrameType::kGoAway:
    case FrameType::kBye:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool Connection::CheckFrame(absl::Span<const uint8_t>* frame) {
  return opener_ != nullptr ? OpenFrame(frame) : CheckSums(frame);
}

// Opens the frame where it lies. Only the peer writes to a receive buffer, and
// only before the receive has completed.
bool Connection::OpenFrame(absl::Span<const uint8_t>* frame) {
  const size_t sent = frame->size();
  if (sent >= sizeof(FrameHeader) + kSealedFrameBytes) {
    const absl::Span<uint8_t> sealed(const_cast<uint8_t*>(frame->data()),
                                     sent - kSealTagBytes);
    if (ABSL_PREDICT_TRUE(opener_->OpenFrame(opened_++, sealed))) {
      *frame = sealed.first(sealed.size() - sizeof(FirstChunk));
      std::memcpy(&received_first_chunk_, frame->data() + frame->size(),
                  sizeof(FirstChunk));
      return true;
    }
  }
  NotOpened("a frame", sent);
  return false;
}

// Frames of a client that has not read the WELCOME have no sums. From the first
// frame with sums on, each frame must have them.
bool Connection::CheckSums(absl::Span<const uint8_t>* frame) {
  FrameSums stated = {};
  uint32_t found = 0;
  const absl::Span<const uint8_t> all = *frame;
  if (!peer_began_sums_ && PrecedesSums(all)) return true;
  if (!TakeSums(frame, &stated, &found) || found != stated.frame) {
    FrameDamaged(all, stated.frame, found);
    return false;
  }
  peer_began_sums_ = true;
  // The parts in an arena may come later: whoever takes them compares
  // their sums.
  received_sums_ = stated.parts;
  return true;
}

}  // namespace verbena::transport
