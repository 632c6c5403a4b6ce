// The inside of a BufferPool, which lives as long as any of its Buffers.

#ifndef VERBENA_TRANSPORT_MEMORY_POOL_CORE_H_
#define VERBENA_TRANSPORT_MEMORY_POOL_CORE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/base/buffer.h"
#include "transport/base/mutex.h"
#include "transport/memory/block_table.h"
#include "transport/memory/buddy_allocator.h"
#include "transport/memory/pool_account.h"
#include "transport/memory/registered_memory.h"
#include "transport/memory/size_classes.h"
#include "transport/verbs/protection_domain.h"

namespace verbena::transport {

// See BufferPool for the contract. It has two levels. Blocks that came back
// wait in lists by size class, from which any thread takes them without a lock.
// Behind them are the buddy allocators of the regions, under a mutex. When
// those have no room the lists are emptied into them, before the pool grows or
// gives up: so the lists hold nothing back.
//
// Counts its users (the BufferPool, its BufferSources, Buffers) and deletes
// itself when there is none. The protection domain must outlive it until
// Close(). Thread-safe, except FindIdle() and TakeIdle(), which are for one
// thread at a time.
class PoolCore final : public BufferOwner {
 public:
  struct Options {
    int access = 0;                   // IBV_ACCESS_ flags of the regions.
    uint64_t first_region_bytes = 0;  // A power of two of at least 4096.
    uint64_t max_bytes = 0;           // The bytes of all regions together.
    uint32_t max_regions = 0;
    // A buffer of so many bytes is never refused for good: whatever else was
    // allocated, there is, or can be, a region that holds it. Rounded up to a
    // power of two it is at most max_bytes.
    uint64_t largest_bytes = 0;
    // TakeIdle() takes regions while more bytes than this are registered, so it
    // may leave fewer, but never fewer than the first region. By default
    // nothing is ever given back.
    uint64_t floor_bytes = UINT64_MAX;
    // How long a region must not have been used before it is taken.
    absl::Duration idle_time = absl::InfiniteDuration();
  };
  // A region as a peer that was told of it sees it. All zero if there is none.
  struct Region {
    uint64_t address = 0;
    uint64_t bytes = 0;
    uint32_t rkey = 0;
    ibv_mr* registration = nullptr;  // The pool's, for memory windows.
    // Counts all regions that there ever were, from 1: an index is used again
    // when its region was given back, a number is not.
    uint64_t number = 0;
  };
  // A region that is no part of the pool any more.
  struct TakenRegion {
    uint32_t index = 0;
    uint64_t number = 0;
    RegisteredMemory memory;
  };

  // Offsets in a region have 32 bits.
  static constexpr uint64_t kRegionBytesMax = uint64_t{1} << 32;

  // A further region is as large as what is asked for (rounded up to a power of
  // two), and at least twice the largest one before. This is the most that it
  // grows ahead of what is asked for, as long as the regions that are left then
  // suffice to reach max_bytes.
  static constexpr uint64_t kGrowthBytesMax = uint64_t{16} << 20;

  // The caller is the first user.
  PoolCore(const ProtectionDomain& pd, const Options& options);
  // REQUIRES: nobody else knows of it yet.
  absl::Status AddFirstRegion();

  // To add a user needs no order, because the caller is one. The last that
  // leaves acquires what all others have released, and may delete the object.
  void AddUser() { users_.fetch_add(1, std::memory_order_relaxed); }
  void RemoveUser() {
    if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  // Deregisters everything: the protection domain may go. Buffers that still
  // exist keep their memory. Called once.
  void Close();

  // Like BufferPool::Allocate(). Once closed, it allocates only blocks that
  // have come back, which are plain memory then, and else fails with
  // UNAVAILABLE. `account` has reserved the block, if it is not null.
  absl::StatusOr<Buffer> Allocate(size_t bytes, PoolAccount* account = nullptr);
  PoolUse& use() { return use_; }
  Buffer AllocateOrPlain(size_t bytes) {
    if (bytes == 0) return Buffer();
    absl::StatusOr<Buffer> buffer = Allocate(bytes);
    return buffer.ok() ? *std::move(buffer) : Buffer::Plain(bytes);
  }
  // Like BufferPool::AllocateSpare().
  absl::StatusOr<Buffer> AllocateSpare(size_t bytes);
  uint64_t shortages() const {
    return shortages_.load(std::memory_order_relaxed);
  }

  // BufferOwner:
  void Recycle(BufferBlock* block) override;

  // Like BufferPool::FindIdle(), TakeIdle() and NextLook().
  bool FindIdle(absl::Time now);
  std::optional<TakenRegion> TakeIdle();
  absl::Time NextLook() const;

  uint64_t regions_added() const {
    return regions_added_.load(std::memory_order_acquire);
  }
  uint32_t region_count() const;
  Region region(uint32_t index) const;
  uint64_t registered_bytes() const {
    return registered_bytes_.load(std::memory_order_relaxed);
  }
  uint64_t allocated_bytes() const;

 private:
  struct RegionState {
    bool unused() const {
      return allocator.largest_free_block() == allocator.capacity();
    }

    RegisteredMemory memory;
    BuddyAllocator allocator;
    uint64_t number = 0;
    // How many looks in a row have found it unused, kIdleLooks at the most.
    int idle_looks = 0;
  };
  // A region is idle if it was found unused at two looks in a row, and so was
  // not in use between them either.
  static constexpr int kIdleLooks = 2;

  ~PoolCore() = default;
  absl::StatusOr<Buffer> AllocateSlow(size_t bytes, PoolAccount* account);
  Buffer Lease(PoolBlock* block, size_t bytes, PoolAccount* account);

  // Null if no region has room.
  PoolBlock* TakeFromRegions(SizeClass size)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  PoolBlock* TakeFromRegion(size_t index, SizeClass size)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives every block that nobody uses back to its region. Returns whether
  // there was any.
  bool DrainLists() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t AllocatedBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds a region that has room for `bytes`; returns its index.
  absl::StatusOr<uint32_t> Grow(uint64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // How large a region to add for a range of `needed` bytes.
  uint64_t GrowthFor(uint64_t needed, uint64_t largest) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Registers a region. Returns its index.
  absl::StatusOr<uint32_t> AddRegion(uint64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Notes which regions are unused. Returns whether any has become idle.
  bool LookForIdle();

  const ProtectionDomain& pd_;  // Used only until Close().
  const Options options_;
  PoolUse use_;
  // The account of the blocks that AllocateSpare() has given.
  PoolAccount::Owner spare_{PoolAccount::Open(use_)};

  std::atomic<uint64_t> users_{1};
  std::array<BlockStack, kSizeClasses> free_;  // By size class.
  BlockTable blocks_;                          // Add() with mutex_ held.
  std::atomic<uint64_t> regions_added_{0};
  std::atomic<uint64_t> registered_bytes_{0};  // The sum over regions_.
  std::atomic<uint64_t> shortages_{0};

  // For the thread that calls FindIdle() and TakeIdle().
  bool any_idle_ = false;
  absl::Time next_look_ = absl::InfinitePast();

  mutable base::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  // Descriptors that describe no block now.
  std::vector<PoolBlock*> unused_ ABSL_GUARDED_BY(mutex_);
  // By index; null where one was given back. The first one stays.
  std::vector<std::unique_ptr<RegionState>> regions_ ABSL_GUARDED_BY(mutex_);
  // How many of regions_ are not null.
  uint32_t region_count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_MEMORY_POOL_CORE_H_
