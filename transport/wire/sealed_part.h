// How the parts of a call that lie in an arena are sealed: see "Seals" in
// frame.h.

#ifndef VERBENA_TRANSPORT_WIRE_SEALED_PART_H_
#define VERBENA_TRANSPORT_WIRE_SEALED_PART_H_

#include <cstdint>

#include "absl/types/span.h"
#include "transport/base/seal.h"
#include "transport/wire/placement.h"

namespace verbena::transport {

constexpr uint64_t SealTagsBytes(uint64_t bytes) {
  return uint64_t{SealChunks(bytes)} * kSealTagBytes;
}
// Returns where a part of a request begins, behind its tags.
constexpr uint64_t SealedRequestStart(uint64_t bytes) {
  return AlignPart(SealTagsBytes(bytes));
}
// Return how much memory a part of `bytes` takes; 0 for an empty one.
constexpr uint64_t SealedRequestBytes(uint64_t bytes) {
  return SealedRequestStart(bytes) + bytes;
}
constexpr uint64_t SealedReplyBytes(uint64_t bytes) {
  return bytes + SealTagsBytes(bytes);
}

// Returns how many chunks the parts have that are not in their frame.
constexpr uint32_t SealChunksOf(Placement place, uint64_t message_bytes,
                                uint64_t attachment_bytes) {
  return (place.message_inline ? 0 : SealChunks(message_bytes)) +
         (place.attachment_inline ? 0 : SealChunks(attachment_bytes));
}
// As LeaseBytes(), for a reply that may be sealed.
constexpr uint64_t ReplyLeaseBytes(bool sealed, uint64_t message_bytes,
                                   uint64_t attachment_bytes) {
  return sealed ? LeaseBytes(SealedReplyBytes(message_bytes),
                             SealedReplyBytes(attachment_bytes))
                : LeaseBytes(message_bytes, attachment_bytes);
}

// Seals or opens the chunks of one part in their order. A value; what it points
// to must outlive it.
class PartSeal {
 public:
  PartSeal() = default;
  // Seals `plain` to `part`, of the same length, maybe the same memory.
  PartSeal(Sealer* sealer, uint64_t first_chunk,
           absl::Span<const uint8_t> plain, uint8_t* part, uint8_t* tags)
      : sealer_(sealer),
        next_chunk_(first_chunk),
        from_(plain.data()),
        part_(part),
        bytes_(plain.size()),
        tags_(tags) {}
  // Opens `part` in place. If `sealed` is not null, each chunk is copied from
  // there first: whoever else can write there cannot change what is opened.
  PartSeal(Opener* opener, uint64_t first_chunk, absl::Span<uint8_t> part,
           uint8_t* tags, const uint8_t* sealed = nullptr)
      : opener_(opener),
        next_chunk_(first_chunk),
        from_(sealed),
        part_(part.data()),
        bytes_(part.size()),
        tags_(tags) {}

  // Whether there is anything to seal or open.
  bool active() const { return part_ != nullptr; }
  // Seals at least the first `bytes`, or all if there are fewer.
  void SealTo(uint64_t bytes);
  // Opens the chunks that lie in the first `bytes` as a whole. False if one
  // does not open; then nothing more is opened.
  [[nodiscard]] bool OpenTo(uint64_t bytes);
  [[nodiscard]] bool OpenAll() { return OpenTo(bytes_); }

 private:
  // Steps over the next chunk and returns its length.
  uint64_t Step();

  Sealer* sealer_ = nullptr;
  Opener* opener_ = nullptr;
  uint64_t next_chunk_ = 0;
  const uint8_t* from_ = nullptr;
  uint8_t* part_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t done_ = 0;
  uint8_t* tags_ = nullptr;  // Tag of the next chunk.
  bool intact_ = true;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_WIRE_SEALED_PART_H_
