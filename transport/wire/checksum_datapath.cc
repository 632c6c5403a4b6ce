#include <isa-l/crc.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "transport/wire/checksum.h"

namespace verbena::transport {

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

uint32_t AppendSums(uint8_t* frame, uint32_t bytes, const PartSums& parts) {
  std::memcpy(frame + bytes, &parts, sizeof(parts));
  const uint32_t before = bytes + static_cast<uint32_t>(sizeof(parts));
  const uint32_t sum = Crc32c({frame, before});
  std::memcpy(frame + before, &sum, sizeof(sum));
  return before + static_cast<uint32_t>(sizeof(sum));
}

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
