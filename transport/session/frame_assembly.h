// Frames that come in several SENDs.

#ifndef VERBENA_TRANSPORT_SESSION_FRAME_ASSEMBLY_H_
#define VERBENA_TRANSPORT_SESSION_FRAME_ASSEMBLY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/types/span.h"
#include "transport/base/buffer.h"
#include "transport/memory/buffer_pool.h"
#include "transport/wire/frame.h"

namespace verbena::transport {

// Puts the one together that a connection receives at present. Holds at most
// kContinuedBytesMax and a header. Confined to the poller's thread.
class FrameAssembly {
 public:
  // Whether a received frame is a part, or comes amid the parts of another.
  bool Concerns(absl::Span<const uint8_t> frame) const {
    return !memory_.empty() ||
           (frame[offsetof(FrameHeader, flags)] & kFlagContinued) != 0 ||
           frame[offsetof(FrameHeader, type)] ==
               static_cast<uint8_t>(FrameType::kContinuation);
  }

  // Takes a frame that it concerns; puts it into memory of `pool`, or plain
  // memory if that is null. Returns null, or what is wrong with the frame.
  // REQUIRES: FrameError(frame) was null.
  const char* Add(absl::Span<const uint8_t> frame, BufferPool* pool);

  // The number of the frame of which there are parts, but not all.
  std::optional<uint64_t> unfinished() const {
    if (memory_.empty()) return std::nullopt;
    return begun_;
  }

  bool complete() const {
    return !memory_.empty() && filled_ == memory_.size();
  }
  // The frame as if it had come in one SEND. An attachment at its end begins on
  // a multiple of kPartAlignment. REQUIRES: complete().
  Buffer Take() { return std::move(memory_); }

 private:
  const char* Begin(absl::Span<const uint8_t> frame, BufferPool* pool);

  Buffer memory_;  // The whole frame; empty when there is none.
  size_t filled_ = 0;
  uint64_t begun_ = 0;  // How many frames there were.
  uint32_t call_id_ = 0;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_SESSION_FRAME_ASSEMBLY_H_
