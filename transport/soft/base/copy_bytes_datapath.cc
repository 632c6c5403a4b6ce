#include <cstdint>
#include <cstring>

#include "transport/soft/base/copy_bytes.h"

namespace verbena::soft {

// From about 2 KiB on memcpy uses `rep movsb`, which is several times slower
// when the two addresses differ modulo 64. Short pieces keep it away from that.
void CopyManyBytes(void* destination, const void* source, size_t length) {
  constexpr size_t kPiece = 1024;
  const auto to = reinterpret_cast<uintptr_t>(destination);
  const auto from = reinterpret_cast<uintptr_t>(source);
  if (length <= kPiece || ((to ^ from) & 63) == 0) {
    std::memcpy(destination, source, length);
    return;
  }
  std::byte* out = static_cast<std::byte*>(destination);
  const std::byte* in = static_cast<const std::byte*>(source);
  for (; length > kPiece; length -= kPiece, out += kPiece, in += kPiece) {
    std::memcpy(out, in, kPiece);
  }
  std::memcpy(out, in, length);
}

}  // namespace verbena::soft
