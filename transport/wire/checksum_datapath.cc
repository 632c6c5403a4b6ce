#include <isa-l/crc.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "transport/wire/checksum.h"

namespace verbena::transport {

// Feeds the library at most kMost bytes at a time, and inverts at both ends, so
// that sums of parts can be chained by `before`.
uint32_t Crc32c(absl::Span<const uint8_t> bytes, uint32_t before) {
  // The library counts in int, and leaves out the inversions at both ends.
  constexpr size_t kMost = size_t{1} << 30;
  uint32_t state = ~before;
  while (!bytes.empty()) {
    const absl::Span<const uint8_t> now =
        bytes.first(std::min(kMost, bytes.size()));
    // crc32_iscsi() only reads the bytes, although its parameter is not const.
    state = crc32_iscsi(const_cast<uint8_t*>(now.data()),
                        static_cast<int>(now.size()), state);
    bytes.remove_prefix(now.size());
  }
  return ~state;
}

// The frame's own sum comes last and covers the sums of the parts, so damage to
// those is noticed as well.
uint32_t AppendSums(uint8_t* frame, uint32_t bytes, const PartSums& parts) {
  std::memcpy(frame + bytes, &parts, sizeof(parts));
  const uint32_t before = bytes + static_cast<uint32_t>(sizeof(parts));
  const uint32_t sum = Crc32c({frame, before});
  std::memcpy(frame + before, &sum, sizeof(sum));
  return before + static_cast<uint32_t>(sizeof(sum));
}

// Looks at the length before anything else, because the header may be damaged
// and is not believed yet.
bool TakeSums(absl::Span<const uint8_t>* frame, FrameSums* stated,
              uint32_t* found) {
  if (frame->size() < sizeof(FrameHeader) + sizeof(*stated)) return false;
  const size_t bytes = frame->size() - sizeof(*stated);
  std::memcpy(stated, frame->data() + bytes, sizeof(*stated));
  *found = Crc32c(frame->first(frame->size() - sizeof(stated->frame)));
  *frame = frame->first(bytes);
  return true;
}

}  // namespace verbena::transport
