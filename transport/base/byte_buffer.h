// Bytes that grow, and are not cleared before they are written.

#ifndef VERBENA_TRANSPORT_BASE_BYTE_BUFFER_H_
#define VERBENA_TRANSPORT_BASE_BYTE_BUFFER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "absl/types/span.h"

namespace verbena::base {

// A std::vector<uint8_t> that says when there is no memory instead of throwing,
// and lets others write the bytes that it grows by. Not thread-safe.
class ByteBuffer {
 public:
  ByteBuffer() = default;
  ByteBuffer(ByteBuffer&& other) noexcept { Swap(other); }
  ByteBuffer& operator=(ByteBuffer&& other) noexcept {
    Swap(other);
    return *this;
  }

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  uint8_t* data() { return bytes_.get(); }
  absl::Span<const uint8_t> span() const { return {bytes_.get(), size_}; }

  // Grows by `bytes`, whose first it returns; null, and grows by nothing, if
  // there is no memory.
  [[nodiscard]] uint8_t* Grow(size_t bytes) {
    if (bytes > capacity_ - size_ &&
        !Reserve(std::max({size_ + bytes, 2 * capacity_, kLeastBytes}))) {
      return nullptr;
    }
    uint8_t* const begin = bytes_.get() + size_;
    size_ += bytes;
    return begin;
  }

  // Takes memory for so many bytes in all; false if there is none. Sizes that
  // it would not come to by doubling save memory, and a copy.
  bool Reserve(size_t bytes) {
    if (bytes <= capacity_) return true;
    std::unique_ptr<uint8_t[]> grown(new (std::nothrow) uint8_t[bytes]);
    if (grown == nullptr) return false;
    if (size_ > 0) std::memcpy(grown.get(), bytes_.get(), size_);
    bytes_ = std::move(grown);
    capacity_ = bytes;
    return true;
  }

  // Grows by these bytes; false if there is no memory.
  [[nodiscard]] bool Append(absl::Span<const uint8_t> bytes) {
    if (bytes.empty()) return true;
    uint8_t* const begin = Grow(bytes.size());
    if (begin == nullptr) return false;
    std::memcpy(begin, bytes.data(), bytes.size());
    return true;
  }

  // Empties it; memory beyond `kept_bytes` goes back.
  void Clear(size_t kept_bytes) {
    size_ = 0;
    if (capacity_ <= kept_bytes) return;
    bytes_.reset();
    capacity_ = 0;
  }

  void Swap(ByteBuffer& other) {
    std::swap(bytes_, other.bytes_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

 private:
  static constexpr size_t kLeastBytes = 256;

  std::unique_ptr<uint8_t[]> bytes_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace verbena::base

#endif  // VERBENA_TRANSPORT_BASE_BYTE_BUFFER_H_
