// The sizes in which registered memory is handed out.

#ifndef VERBENA_TRANSPORT_MEMORY_SIZE_CLASSES_H_
#define VERBENA_TRANSPORT_MEMORY_SIZE_CLASSES_H_

#include <bit>
#include <cstdint>

namespace verbena::transport {

// Whole pages, so that no two blocks share one.
inline constexpr uint64_t kMinBlockBytes = 4096;

// A class of blocks of one size. There is a class for every number of pages up
// to eight, and there are four to each power of two above that: so a message of
// 1 MiB with its few bytes of framing takes 1.25 MiB, not 2. The index grows
// with the size.
struct SizeClass {
  uint32_t index = 0;
  uint64_t block_bytes = 0;
};

// The smallest class whose blocks hold `bytes`. REQUIRES: 0 < bytes, and less
// than 2^63.
constexpr SizeClass SizeClassFor(uint64_t bytes) {
  const uint64_t last_page = (bytes - 1) / kMinBlockBytes;
  const int width = std::bit_width(last_page);
  const int shift = width > 3 ? width - 3 : 0;
  const uint64_t steps = last_page >> shift;
  return {
      .index = static_cast<uint32_t>(4 * shift) + static_cast<uint32_t>(steps),
      .block_bytes = ((steps + 1) << shift) * kMinBlockBytes};
}

// Returns the bytes that a buffer of `bytes` occupies; 0 for an empty one.
constexpr uint64_t OccupiedBytes(uint64_t bytes) {
  return bytes == 0 ? 0 : SizeClassFor(bytes).block_bytes;
}

// Classes of blocks of up to 2^32 bytes.
inline constexpr uint32_t kSizeClasses =
    SizeClassFor(uint64_t{1} << 32).index + 1;

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_MEMORY_SIZE_CLASSES_H_
