// Registered memory, in pieces.

#ifndef VERBENA_TRANSPORT_MEMORY_BUFFER_POOL_H_
#define VERBENA_TRANSPORT_MEMORY_BUFFER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "transport/base/buffer.h"
#include "transport/memory/pool_core.h"
#include "transport/verbs/protection_domain.h"

namespace verbena::transport {

// Allocates from a pool for as long as there is one. A value: copies allocate
// from the same pool. Confined to one thread at a time; copies are not.
class BufferSource {
 public:
  // Of plain memory.
  BufferSource() = default;
  BufferSource(const BufferSource& other) : core_(other.core_) {
    if (core_ != nullptr) core_->AddUser();
  }
  BufferSource(BufferSource&& other) noexcept
      : core_(std::exchange(other.core_, nullptr)) {}
  BufferSource& operator=(BufferSource other) noexcept {
    std::swap(core_, other.core_);
    return *this;
  }
  ~BufferSource() {
    if (core_ != nullptr) core_->RemoveUser();
  }

  // As BufferPool::AllocateOrPlain().
  Buffer Allocate(size_t bytes) const {
    return core_ != nullptr ? core_->AllocateOrPlain(bytes)
                            : Buffer::Plain(bytes);
  }

 private:
  friend class BufferPool;
  explicit BufferSource(PoolCore* core) : core_(core) { core_->AddUser(); }

  PoolCore* core_ = nullptr;
};

// Hands out Buffers from a few large registered regions. It begins with one
// region and registers further ones as they are needed, up to a bound; regions
// stay until the pool is destroyed, because a peer may know of them.
//
// Thread-safe, and without a lock or a system call for sizes that came back
// before. The protection domain must outlive the pool. Buffers need not be gone
// before it: their memory is deregistered, and stays until they are.
class BufferPool {
 public:
  using Options = PoolCore::Options;
  using Region = PoolCore::Region;
  static constexpr uint64_t kGrowthBytesMax = PoolCore::kGrowthBytesMax;

  static absl::StatusOr<std::unique_ptr<BufferPool>> Create(
      const ProtectionDomain& pd, const Options& options);
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool();

  // Buffers begin on a page. REQUIRES: bytes > 0. UNAVAILABLE when there is no
  // room now, but will be when Buffers come back; RESOURCE_EXHAUSTED when there
  // will never be; the error of the registration when that failed.
  absl::StatusOr<Buffer> Allocate(size_t bytes) {
    return core_->Allocate(bytes);
  }
  // Registered memory if there is some now, else plain memory. Empty for zero
  // bytes.
  Buffer AllocateOrPlain(size_t bytes) { return core_->AllocateOrPlain(bytes); }
  // How often Allocate() has said UNAVAILABLE.
  uint64_t shortages() const { return core_->shortages(); }
  // Where other objects may allocate from, also after the pool.
  BufferSource source() const { return BufferSource(core_); }

  // Whether the device may use the Buffer as it is.
  bool Owns(const Buffer& buffer) const { return buffer.owner() == core_; }

  uint32_t region_count() const { return core_->region_count(); }
  Region region(uint32_t index) const { return core_->region(index); }
  uint64_t registered_bytes() const { return core_->registered_bytes(); }
  // What the Buffers out there occupy.
  uint64_t allocated_bytes() const { return core_->allocated_bytes(); }

 private:
  explicit BufferPool(PoolCore* core) : core_(core) {}

  PoolCore* const core_;  // Never null; this is one of its users.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_MEMORY_BUFFER_POOL_H_
