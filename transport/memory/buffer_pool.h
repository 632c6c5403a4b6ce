// Registered memory, in pieces.

#ifndef VERBENA_TRANSPORT_MEMORY_BUFFER_POOL_H_
#define VERBENA_TRANSPORT_MEMORY_BUFFER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "transport/memory/buddy_allocator.h"
#include "transport/memory/registered_memory.h"
#include "transport/verbs/protection_domain.h"

namespace verbena::transport {

class BufferPool;

// A move-only lease of registered memory from a BufferPool, which must outlive
// it. Given back when destroyed. The bytes are not cleared. Aligned to 4096
// bytes.
//
// Not thread-safe, but may be destroyed on any thread.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer() { Reset(); }

  bool empty() const { return pool_ == nullptr; }
  uint8_t* data() const { return data_; }
  // The bytes that were asked for.
  size_t size() const { return size_; }
  absl::Span<uint8_t> span() const { return {data_, size_}; }

  uint32_t lkey() const { return lkey_; }
  uint32_t rkey() const { return rkey_; }
  // Which region of the pool it is in, and where: how a peer that was told of
  // the region names these bytes.
  uint16_t region() const { return region_; }
  uint32_t offset() const { return offset_; }

  // Gives the memory back now.
  void Reset();

 private:
  friend class BufferPool;

  BufferPool* pool_ = nullptr;  // Null when empty.
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  uint32_t lkey_ = 0;
  uint32_t rkey_ = 0;
  uint32_t offset_ = 0;
  uint16_t region_ = 0;
};

// Hands out Buffers from a few large registered regions. It begins with one
// region and registers further ones as they are needed, up to a bound; regions
// stay until the pool is destroyed, because a peer may know of them.
//
// Thread-safe. The protection domain must outlive it; all Buffers must be gone
// before it (CHECK).
class BufferPool {
 public:
  struct Options {
    int access = 0;                   // IBV_ACCESS_ flags of the regions.
    uint64_t first_region_bytes = 0;  // A power of two of at least 4096.
    uint64_t max_bytes = 0;           // Of all regions together.
    uint32_t max_regions = 0;
    // A buffer of so many bytes is never refused for good: whatever else was
    // allocated, there is, or can be, a region that holds it. Rounded up to a
    // power of two it is at most max_bytes.
    uint64_t largest_bytes = 0;
  };

  // Further regions are as large as what is asked for (rounded up to a power of
  // two), and at least twice the largest one before. This is the most that they
  // grow ahead of what is asked for, as long as the regions that are left then
  // suffice to reach max_bytes.
  static constexpr uint64_t kGrowthBytesMax = uint64_t{16} << 20;

  static absl::StatusOr<std::unique_ptr<BufferPool>> Create(
      const ProtectionDomain& pd, const Options& options);
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool();

  // REQUIRES: bytes > 0. UNAVAILABLE when there is no room now, but will be
  // when Buffers come back; RESOURCE_EXHAUSTED when there will never be; the
  // error of the registration when that failed.
  absl::StatusOr<Buffer> Allocate(size_t bytes);

  struct Region {
    uint64_t address;
    uint64_t bytes;
    uint32_t rkey;
  };
  uint32_t region_count() const;
  Region region(uint32_t index) const;

  uint64_t registered_bytes() const;
  uint64_t allocated_bytes() const;  // What the Buffers out there occupy.

 private:
  friend class Buffer;

  struct RegionState {
    RegisteredMemory memory;
    BuddyAllocator allocator;
  };

  BufferPool(const ProtectionDomain& pd, const Options& options);
  void Free(const Buffer& buffer);

  // REQUIRES of these three: mutex_ held.
  // Empty if the region has no room.
  Buffer TakeFrom(size_t index, size_t bytes);
  // Adds a region that has room for `bytes`.
  absl::Status Grow(uint64_t bytes);
  // How large a region to add for a block of `needed` bytes.
  uint64_t GrowthFor(uint64_t needed, uint64_t largest) const;
  absl::Status AddRegion(uint64_t bytes);

  const ProtectionDomain& pd_;
  const Options options_;

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::vector<std::unique_ptr<RegionState>> regions_;
  uint64_t registered_bytes_ = 0;
  uint64_t allocated_bytes_ = 0;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_MEMORY_BUFFER_POOL_H_
