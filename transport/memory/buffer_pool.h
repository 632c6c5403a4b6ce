// Registered memory, in pieces.

#ifndef VERBENA_TRANSPORT_MEMORY_BUFFER_POOL_H_
#define VERBENA_TRANSPORT_MEMORY_BUFFER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/base/buffer.h"
#include "transport/memory/pool_account.h"
#include "transport/memory/pool_core.h"
#include "transport/memory/size_classes.h"
#include "transport/verbs/protection_domain.h"

namespace verbena::transport {

// Allocates from a pool for as long as there is one. A value: copies allocate
// from the same pool. Confined to one thread at a time; copies are not.
class BufferSource {
 public:
  // A source of plain memory.
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

  // Like BufferPool::AllocateOrPlain().
  Buffer Allocate(size_t bytes) const {
    return core_ != nullptr ? core_->AllocateOrPlain(bytes)
                            : Buffer::Plain(bytes);
  }
  // Like BufferPool::AllocateSpare(), or else plain memory; empty if there is
  // none.
  Buffer AllocateSpare(size_t bytes) const;

 private:
  friend class BufferPool;
  explicit BufferSource(PoolCore* core) : core_(core) { core_->AddUser(); }

  PoolCore* core_ = nullptr;
};

// Hands out Buffers from a few large registered regions. It begins with one
// region and registers further ones as they are needed, up to a bound. The
// owner of the pool may take out those regions again of which nothing was used
// for a while, when no peer may use them any more; the first one stays.
//
// Thread-safe, and without a lock or a system call for sizes that came back
// before. The protection domain must outlive the pool. Buffers may outlive it:
// their memory is deregistered with the pool, and freed with them.
class BufferPool {
 public:
  using Options = PoolCore::Options;
  using Region = PoolCore::Region;
  using TakenRegion = PoolCore::TakenRegion;
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
  // As Allocate(), but on an account of this pool that has reserved
  // OccupiedBytes(bytes). The Buffer takes the reservation over. If this fails,
  // the reservation is undone.
  absl::StatusOr<Buffer> AllocateReserved(size_t bytes, PoolAccount& account) {
    absl::StatusOr<Buffer> buffer = core_->Allocate(bytes, &account);
    if (!buffer.ok()) account.Unreserve(OccupiedBytes(bytes));
    return buffer;
  }
  PoolAccount::Owner OpenAccount() { return PoolAccount::Open(core_->use()); }
  // Registered memory if there is some now, else plain memory. Empty for zero
  // bytes.
  Buffer AllocateOrPlain(size_t bytes) { return core_->AllocateOrPlain(bytes); }
  // Memory for what can also go another way: all that was allocated so together
  // leaves an eighth of the pool (see kPoolShare) to what can not. UNAVAILABLE
  // if it would not, else fails as Allocate().
  absl::StatusOr<Buffer> AllocateSpare(size_t bytes) {
    return core_->AllocateSpare(bytes);
  }
  // How often Allocate() has said UNAVAILABLE.
  uint64_t shortages() const { return core_->shortages(); }
  // A source from which other objects may allocate, even after the pool is
  // gone.
  BufferSource source() const { return BufferSource(core_); }

  // Whether the device may use the Buffer as it is.
  bool Owns(const Buffer& buffer) const { return buffer.owner() == core_; }

  // Whether there is a region to give back: more than Options::floor_bytes are
  // registered, and in that region nothing is allocated, nor was at any time
  // for Options::idle_time. At most twice that time may pass before it is
  // found. If more than the floor is registered, this takes a mutex and empties
  // the lists once in that time; in between it costs nothing. This and the two
  // methods below are for one thread at a time.
  bool FindIdle(absl::Time now) { return core_->FindIdle(now); }
  // Takes a region that FindIdle() has found out of the pool, one at each call;
  // nothing if none is idle any more. Nobody has a Buffer in the region, and
  // the caller deregisters it by destroying it, which may take milliseconds.
  std::optional<TakenRegion> TakeIdle() { return core_->TakeIdle(); }
  // The time to call FindIdle() again, which may be in the past.
  absl::Time NextLook() const { return core_->NextLook(); }

  uint32_t region_count() const { return core_->region_count(); }
  // How many regions there ever were.
  uint64_t regions_added() const { return core_->regions_added(); }
  // The region of that index. All indices are below Options::max_regions.
  Region region(uint32_t index) const { return core_->region(index); }
  uint64_t registered_bytes() const { return core_->registered_bytes(); }
  // The bytes that all Buffers of the pool occupy.
  uint64_t allocated_bytes() const { return core_->allocated_bytes(); }

 private:
  explicit BufferPool(PoolCore* core) : core_(core) {}

  PoolCore* const core_;  // Never null; this is one of its users.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_MEMORY_BUFFER_POOL_H_
