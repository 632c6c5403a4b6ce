#include "transport/memory/pool_core.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/status_macros.h"

namespace verbena::transport {

PoolCore::PoolCore(const ProtectionDomain& pd, const Options& options)
    : pd_(pd), options_(options), use_{options.max_bytes} {}

absl::Status PoolCore::AddFirstRegion() {
  const base::MutexLock lock(mutex_);
  // If there is no room for another region that holds largest_bytes, the first
  // one must hold them.
  const uint64_t promised = std::bit_ceil(options_.largest_bytes);
  const bool later =
      options_.max_regions > 1 &&
      options_.max_bytes - options_.first_region_bytes >= promised;
  return AddRegion(later ? options_.first_region_bytes
                         : std::max(options_.first_region_bytes, promised))
      .status();
}

// Empties the lists first, so that unused() sees which regions have no block
// out. Memory that is freed here is not allocated again, as AllocateSlow()
// refuses from now on.
void PoolCore::Close() {
  const base::MutexLock lock(mutex_);
  closed_ = true;
  DrainLists();
  for (const std::unique_ptr<RegionState>& region : regions_) {
    if (region == nullptr) continue;
    region->memory.Deregister();
    // Nobody has a Buffer in this region, and nobody gets one any more.
    if (region->unused()) region->memory = RegisteredMemory();
  }
}

// Tries the regions as they are, then with the blocks of all lists joined, and
// grows only if that is not enough.
absl::StatusOr<Buffer> PoolCore::AllocateSlow(size_t bytes,
                                              PoolAccount* account) {
  if (bytes > kRegionBytesMax) {
    return absl::ResourceExhaustedError(absl::StrCat(
        bytes,
        " bytes of registered memory were asked for at once; the limit is ",
        kRegionBytesMax));
  }
  const SizeClass size = SizeClassFor(bytes);
  const base::MutexLock lock(mutex_);
  if (closed_) return absl::UnavailableError("the pool is closed");
  PoolBlock* block = TakeFromRegions(size);
  if (block == nullptr && DrainLists()) block = TakeFromRegions(size);
  if (block == nullptr) {
    ASSIGN_OR_RETURN(const uint32_t added, Grow(bytes));
    block = TakeFromRegion(added, size);
    CHECK(block != nullptr) << "no room in a new region for " << bytes;
  }
  return Lease(block, bytes, account);
}

PoolBlock* PoolCore::TakeFromRegions(SizeClass size) {
  for (size_t i = 0; i < regions_.size(); ++i) {
    if (regions_[i] == nullptr) continue;
    PoolBlock* const block = TakeFromRegion(i, size);
    if (block != nullptr) return block;
  }
  return nullptr;
}

// Allocates from one region, and describes the block by a descriptor that is
// unused, or else new.
PoolBlock* PoolCore::TakeFromRegion(size_t index, SizeClass size) {
  RegionState& region = *regions_[index];
  const std::optional<uint64_t> offset =
      region.allocator.Allocate(size.block_bytes);
  if (!offset.has_value()) return nullptr;
  // Keeps TakeIdle() from this region: see LookForIdle().
  region.idle_looks = 0;
  PoolBlock* block = nullptr;
  if (unused_.empty()) {
    block = blocks_.Add();
  } else {
    block = unused_.back();
    unused_.pop_back();
  }
  block->owner = this;
  block->data = region.memory.data() + *offset;
  block->bytes = size.block_bytes;
  block->lkey = region.memory.lkey();
  block->rkey = region.memory.rkey();
  block->offset = static_cast<uint32_t>(*offset);
  block->region = static_cast<uint16_t>(index);
  block->size_class = static_cast<uint8_t>(size.index);
  return block;
}

// Descriptors are kept in unused_, because a thread within BlockStack::Pop()
// may still read one.
bool PoolCore::DrainLists() {
  bool any = false;
  for (BlockStack& list : free_) {
    while (PoolBlock* const block = list.Pop(blocks_)) {
      regions_[block->region]->allocator.Free(block->offset, block->bytes);
      block->bytes = 0;
      unused_.push_back(block);
      any = true;
    }
  }
  return any;
}

// If there can be no further region, it depends on the largest one whether such
// a block will ever be free: UNAVAILABLE if it may, RESOURCE_EXHAUSTED if not.
absl::StatusOr<uint32_t> PoolCore::Grow(uint64_t bytes) {
  const uint64_t needed = std::bit_ceil(BuddyAllocator::BlockBytes(bytes));
  uint64_t largest = 0;
  for (const auto& region : regions_) {
    if (region == nullptr) continue;
    largest = std::max(largest, region->allocator.capacity());
  }
  const uint64_t room = options_.max_bytes - registered_bytes();
  if (region_count_ == options_.max_regions || room < needed) {
    const std::string message = absl::StrCat(
        bytes, " bytes of registered memory: ", AllocatedBytes(), " of ",
        registered_bytes(), " are in use, in ", region_count_,
        " regions; at most ", options_.max_bytes, " in ", options_.max_regions);
    if (largest < needed) return absl::ResourceExhaustedError(message);
    shortages_.fetch_add(1, std::memory_order_relaxed);
    return absl::UnavailableError(message);
  }
  return AddRegion(GrowthFor(needed, largest));
}

// Grows ahead of what is needed by doubling, because each region costs a
// registration and max_regions limits their number. Beyond kGrowthBytesMax it
// doubles only if smaller regions would not suffice to reach max_bytes.
uint64_t PoolCore::GrowthFor(uint64_t needed, uint64_t largest) const {
  const uint64_t room = options_.max_bytes - registered_bytes();
  const uint64_t regions_left = options_.max_regions - region_count_;
  uint64_t ahead = std::min(2 * largest, kRegionBytesMax);
  if (regions_left * kGrowthBytesMax >= room) {
    ahead = std::min(ahead, kGrowthBytesMax);
  }
  const uint64_t wanted =
      std::min(std::max(needed, ahead), std::bit_floor(room));
  const uint64_t promised = std::bit_ceil(options_.largest_bytes);
  if (largest >= promised || wanted >= promised) return wanted;
  // After this region, there must be room left for a region that holds
  // largest_bytes; otherwise this one must be as large.
  const bool possible = regions_left > 1 && room - wanted >= promised;
  return possible ? wanted : promised;
}

absl::StatusOr<uint32_t> PoolCore::AddRegion(uint64_t bytes) {
  ASSIGN_OR_RETURN(RegisteredMemory memory,
                   RegisteredMemory::Create(pd_, bytes, options_.access));
  // An index is used again, a number never: peers that know the old region of
  // an index are not confused.
  const uint64_t number = regions_added() + 1;
  auto place = std::find(regions_.begin(), regions_.end(), nullptr);
  if (place == regions_.end()) place = regions_.emplace(place);
  *place = std::make_unique<RegionState>(
      RegionState{std::move(memory), BuddyAllocator(bytes), number});
  ++region_count_;
  registered_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  // Released behind the region's fields, for threads that acquire the number in
  // regions_added().
  regions_added_.store(number, std::memory_order_release);
  return static_cast<uint32_t>(place - regions_.begin());
}

bool PoolCore::FindIdle(absl::Time now) {
  if (registered_bytes() <= options_.floor_bytes) {
    any_idle_ = false;
  } else if (now >= next_look_) {
    next_look_ = now + options_.idle_time;
    any_idle_ = LookForIdle();
  }
  return any_idle_;
}

// Once the lists are empty, unused memory is allocated only by
// TakeFromRegion(), with the mutex held, which notes that the region is in use.
// So allocating from the lists, which takes no mutex, need not note that.
bool PoolCore::LookForIdle() {
  const base::MutexLock lock(mutex_);
  DrainLists();
  bool any = false;
  for (size_t i = 1; i < regions_.size(); ++i) {
    if (regions_[i] == nullptr) continue;
    int& looks = regions_[i]->idle_looks;
    looks = regions_[i]->unused() ? std::min(looks + 1, kIdleLooks) : 0;
    any = any || looks == kIdleLooks;
  }
  return any;
}

// Takes one region that two looks have found idle, as long as the floor is not
// reached. Region 0 stays.
std::optional<PoolCore::TakenRegion> PoolCore::TakeIdle() {
  const base::MutexLock lock(mutex_);
  // The last regions go first, because they are used only when those before
  // them have no room.
  for (size_t i = regions_.size(); --i > 0;) {
    if (regions_[i] == nullptr || regions_[i]->idle_looks < kIdleLooks) {
      continue;
    }
    if (registered_bytes() <= options_.floor_bytes) break;
    // No block of the region is out or in a list: the looks found it unused
    // with empty lists, and an allocation since would have reset idle_looks.
    const std::unique_ptr<RegionState> region = std::move(regions_[i]);
    --region_count_;
    registered_bytes_.fetch_sub(region->memory.size(),
                                std::memory_order_relaxed);
    return TakenRegion{static_cast<uint32_t>(i), region->number,
                       std::move(region->memory)};
  }
  any_idle_ = false;
  return std::nullopt;
}

absl::Time PoolCore::NextLook() const {
  if (registered_bytes() <= options_.floor_bytes) return absl::InfiniteFuture();
  return any_idle_ ? absl::InfinitePast() : next_look_;
}

uint32_t PoolCore::region_count() const {
  const base::MutexLock lock(mutex_);
  return region_count_;
}

PoolCore::Region PoolCore::region(uint32_t index) const {
  const base::MutexLock lock(mutex_);
  if (index >= regions_.size() || regions_[index] == nullptr) return {};
  const RegisteredMemory& memory = regions_[index]->memory;
  return {.address = reinterpret_cast<uint64_t>(memory.data()),
          .bytes = memory.size(),
          .rkey = memory.rkey(),
          .registration = memory.region(),
          .number = regions_[index]->number};
}

absl::StatusOr<Buffer> PoolCore::AllocateSpare(size_t bytes) {
  // Reserve() lets an account that has nothing take any size, so one buffer
  // alone is held to the share here.
  const uint64_t most = options_.max_bytes / (kPoolShare + 1) * kPoolShare;
  if (OccupiedBytes(bytes) > most || !spare_->Reserve(OccupiedBytes(bytes))) {
    return absl::UnavailableError(
        "the rest of the memory is reserved for other connections");
  }
  absl::StatusOr<Buffer> buffer = Allocate(bytes, spare_.get());
  if (!buffer.ok()) spare_->Unreserve(OccupiedBytes(bytes));
  return buffer;
}

uint64_t PoolCore::allocated_bytes() const {
  const base::MutexLock lock(mutex_);
  return AllocatedBytes();
}

uint64_t PoolCore::AllocatedBytes() const {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < blocks_.size(); ++i) {
    const PoolBlock* const block = blocks_.At(i);
    // Relaxed order is enough: blocks come and go without the mutex, so the sum
    // is old at once anyway.
    if (block->references.load(std::memory_order_relaxed) > 0) {
      bytes += block->bytes;
    }
  }
  return bytes;
}

}  // namespace verbena::transport
