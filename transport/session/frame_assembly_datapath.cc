#include <cstring>

#include "transport/session/frame_assembly.h"
#include "transport/wire/frame_codec.h"
#include "transport/wire/placement.h"

namespace verbena::transport {
namespace {

// Bytes of the attachment at the end of the body.
uint32_t InlineAttachmentBytes(absl::Span<const uint8_t> frame) {
  const FrameHeader header = LoadHeader<FrameHeader>(frame);
  if ((header.flags & kFlagAttachmentInArena) != 0) return 0;
  return header.type == FrameType::kRequest
             ? LoadHeader<RequestHeader>(frame).attachment_bytes
             : LoadHeader<ResponseHeader>(frame).attachment_bytes;
}

}  // namespace

// Copies each part behind those before it. Any other frame in between is an
// error: only frames that need no credit may come there.
const char* FrameAssembly::Add(absl::Span<const uint8_t> frame,
                               BufferPool* pool) {
  const FrameHeader header = LoadHeader<FrameHeader>(frame);
  if (memory_.empty()) return Begin(frame, pool);
  if (header.type != FrameType::kContinuation || header.call_id != call_id_) {
    return "it sent another frame before the end of one that it continues";
  }
  if (header.body_bytes > memory_.size() - filled_) {
    return "it continued a frame beyond its length";
  }
  std::memcpy(memory_.data() + filled_, FrameBody(frame).data(),
              header.body_bytes);
  filled_ += header.body_bytes;
  return nullptr;
}

// Takes memory for the whole frame, whose length the first header states.
// FrameError() has bounded it by kContinuedBytesMax.
const char* FrameAssembly::Begin(absl::Span<const uint8_t> frame,
                                 BufferPool* pool) {
  FrameHeader header = LoadHeader<FrameHeader>(frame);
  if (header.type == FrameType::kContinuation) {
    return "it continued a frame that it had not begun";
  }
  const uint64_t bytes = uint64_t{header.header_bytes} + header.body_bytes;
  const uint64_t before = bytes - InlineAttachmentBytes(frame);
  memory_ = pool == nullptr ? Buffer::Plain(bytes + kPartAlignment)
                            : pool->AllocateOrPlain(bytes + kPartAlignment);
  // The frame begins so far into the block that the attachment, its last part,
  // lies on a multiple of kPartAlignment.
  memory_.Narrow(AlignPart(before) - before, bytes);
  // Handlers see a frame as if it had come in one SEND.
  header.flags &= static_cast<uint8_t>(~kFlagContinued);
  std::memcpy(memory_.data(), frame.data(), frame.size());
  std::memcpy(memory_.data(), &header, sizeof(header));
  filled_ = frame.size();
  ++begun_;
  call_id_ = header.call_id;
  return nullptr;
}

}  // namespace verbena::transport
