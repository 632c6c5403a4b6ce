// Owner of anonymous memory.

#ifndef VERBENA_TRANSPORT_MEMORY_MAPPED_MEMORY_H_
#define VERBENA_TRANSPORT_MEMORY_MAPPED_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace verbena::transport {

// Owns whole pages of zeroed memory from the kernel, shared with no other
// object: memory that a device is allowed to touch must not lie beside that of
// the heap. Memory of 2 MiB or more begins on a 2 MiB boundary and asks for
// huge pages, which save the device page table entries: those that the machine
// has set aside and its control groups allow, which take memory at once; else
// transparent ones; else it goes without. Other pages that are not touched take
// no memory until a device pins them.
//
// Move-only; the address stays the same when it moves. Not thread-safe.
class MappedMemory {
 public:
  // INVALID_ARGUMENT for zero bytes, RESOURCE_EXHAUSTED when the kernel has no
  // memory to give.
  static absl::StatusOr<MappedMemory> Create(size_t bytes);

  MappedMemory() = default;
  MappedMemory(MappedMemory&& other) noexcept;
  MappedMemory& operator=(MappedMemory&& other) noexcept;
  ~MappedMemory() { Reset(); }

  // Null only when default-constructed or moved from.
  uint8_t* data() const { return data_; }
  // The bytes that were asked for.
  size_t size() const { return size_; }
  absl::Span<uint8_t> span() const { return {data_, size_}; }

 private:
  MappedMemory(uint8_t* data, size_t size) : data_(data), size_(size) {}
  void Reset();

  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_MEMORY_MAPPED_MEMORY_H_
