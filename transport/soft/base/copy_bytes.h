// Copying, as fast as the software device needs it.

#ifndef VERBENA_TRANSPORT_SOFT_BASE_COPY_BYTES_H_
#define VERBENA_TRANSPORT_SOFT_BASE_COPY_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace verbena::soft {

// Copies `length` bytes, of which there are more than 64: memcpy, except that
// it stays fast when the two sides are not aligned alike.
void CopyManyBytes(void* destination, const void* source, size_t length);

namespace internal {

// Both ends of the range as one `Word` each; they overlap in the middle.
template <typename Word>
inline void CopyEnds(std::byte* to, const std::byte* from, size_t length) {
  Word first;
  Word last;
  std::memcpy(&first, from, sizeof(Word));
  std::memcpy(&last, from + length - sizeof(Word), sizeof(Word));
  std::memcpy(to, &first, sizeof(Word));
  std::memcpy(to + length - sizeof(Word), &last, sizeof(Word));
}

struct Block16 {
  uint64_t words[2];
};
struct Block32 {
  Block16 halves[2];
};

}  // namespace internal

// memcpy. A message of 64 bytes or less costs no call.
inline void CopyBytes(void* destination, const void* source, size_t length) {
  if (length > 64) {
    CopyManyBytes(destination, source, length);
    return;
  }
  std::byte* const to = static_cast<std::byte*>(destination);
  const std::byte* const from = static_cast<const std::byte*>(source);
  if (length >= 32) {
    internal::CopyEnds<internal::Block32>(to, from, length);
  } else if (length >= 16) {
    internal::CopyEnds<internal::Block16>(to, from, length);
  } else if (length >= 8) {
    internal::CopyEnds<uint64_t>(to, from, length);
  } else if (length >= 4) {
    internal::CopyEnds<uint32_t>(to, from, length);
  } else {
    for (size_t i = 0; i < length; ++i) to[i] = from[i];
  }
}

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_BASE_COPY_BYTES_H_
