#include "transport/memory/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/status_macros.h"

namespace verbena::transport {
namespace {

// Offsets in a region have 32 bits.
constexpr uint64_t kRegionBytesMax = uint64_t{1} << 32;
// So have indices of regions 16.
constexpr uint32_t kRegionsMax = UINT16_MAX + 1;

absl::Status CheckOptions(const BufferPool::Options& options) {
  const uint64_t first = options.first_region_bytes;
  if (!std::has_single_bit(first) || first < BuddyAllocator::kMinBlockBytes ||
      first > kRegionBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the first region has ", first, " bytes: must be a power of two from ",
        BuddyAllocator::kMinBlockBytes, " to ", kRegionBytesMax));
  }
  if (options.max_bytes < first) {
    return absl::InvalidArgumentError(
        absl::StrCat("at most ", options.max_bytes,
                     " bytes may be registered, but the first region has ",
                     first, " already"));
  }
  if (options.max_regions == 0 || options.max_regions > kRegionsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("at most ", options.max_regions,
                     " regions: must be from 1 to ", kRegionsMax));
  }
  const uint64_t promised = std::bit_ceil(options.largest_bytes);
  if (promised > std::min(options.max_bytes, kRegionBytesMax)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "at most ", options.max_bytes, " bytes may be registered, too few for ",
        "one buffer of ", options.largest_bytes));
  }
  return absl::OkStatus();
}

}  // namespace

Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  pool_ = std::exchange(other.pool_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  lkey_ = std::exchange(other.lkey_, 0);
  rkey_ = std::exchange(other.rkey_, 0);
  offset_ = std::exchange(other.offset_, 0);
  region_ = std::exchange(other.region_, 0);
  return *this;
}

void Buffer::Reset() {
  if (pool_ == nullptr) return;
  pool_->Free(*this);
  pool_ = nullptr;
  data_ = nullptr;
  size_ = 0;
}

absl::StatusOr<std::unique_ptr<BufferPool>> BufferPool::Create(
    const ProtectionDomain& pd, const Options& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<BufferPool> pool(new BufferPool(pd, options));
  const std::lock_guard lock(pool->mutex_);
  // Where there is no room for another region of that size, the first one has
  // it.
  const uint64_t promised = std::bit_ceil(options.largest_bytes);
  const bool later = options.max_regions > 1 &&
                     options.max_bytes - options.first_region_bytes >= promised;
  RETURN_IF_ERROR(
      pool->AddRegion(later ? options.first_region_bytes
                            : std::max(options.first_region_bytes, promised)));
  return pool;
}

BufferPool::BufferPool(const ProtectionDomain& pd, const Options& options)
    : pd_(pd), options_(options) {}

BufferPool::~BufferPool() {
  CHECK_EQ(allocated_bytes_, 0u) << "a Buffer outlives its pool";
}

absl::StatusOr<Buffer> BufferPool::Allocate(size_t bytes) {
  CHECK_GT(bytes, 0u);
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < regions_.size(); ++i) {
    Buffer buffer = TakeFrom(i, bytes);
    if (!buffer.empty()) return buffer;
  }
  RETURN_IF_ERROR(Grow(bytes));
  Buffer buffer = TakeFrom(regions_.size() - 1, bytes);
  CHECK(!buffer.empty()) << "no room in a new region for " << bytes;
  return buffer;
}

Buffer BufferPool::TakeFrom(size_t index, size_t bytes) {
  RegionState& region = *regions_[index];
  Buffer buffer;
  const std::optional<uint64_t> offset = region.allocator.Allocate(bytes);
  if (!offset.has_value()) return buffer;
  allocated_bytes_ += BuddyAllocator::BlockBytes(bytes);
  buffer.pool_ = this;
  buffer.data_ = region.memory.data() + *offset;
  buffer.size_ = bytes;
  buffer.lkey_ = region.memory.lkey();
  buffer.rkey_ = region.memory.rkey();
  buffer.offset_ = static_cast<uint32_t>(*offset);
  buffer.region_ = static_cast<uint16_t>(index);
  return buffer;
}

absl::Status BufferPool::Grow(uint64_t bytes) {
  if (bytes > kRegionBytesMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat(bytes, " bytes of registered memory at once: at most ",
                     kRegionBytesMax));
  }
  const uint64_t needed = BuddyAllocator::BlockBytes(bytes);
  uint64_t largest = 0;
  for (const auto& region : regions_) {
    largest = std::max(largest, region->allocator.capacity());
  }
  const uint64_t room = options_.max_bytes - registered_bytes_;
  if (regions_.size() == options_.max_regions || room < needed) {
    const std::string message = absl::StrCat(
        bytes, " bytes of registered memory: ", allocated_bytes_, " of ",
        registered_bytes_, " are in use, in ", regions_.size(),
        " regions; at most ", options_.max_bytes, " in ", options_.max_regions);
    return largest >= needed ? absl::UnavailableError(message)
                             : absl::ResourceExhaustedError(message);
  }
  return AddRegion(GrowthFor(needed, largest));
}

uint64_t BufferPool::GrowthFor(uint64_t needed, uint64_t largest) const {
  const uint64_t room = options_.max_bytes - registered_bytes_;
  const uint64_t regions_left = options_.max_regions - regions_.size();
  uint64_t ahead = std::min(2 * largest, kRegionBytesMax);
  if (regions_left * kGrowthBytesMax >= room) {
    ahead = std::min(ahead, kGrowthBytesMax);
  }
  const uint64_t wanted =
      std::min(std::max(needed, ahead), std::bit_floor(room));
  const uint64_t promised = std::bit_ceil(options_.largest_bytes);
  if (largest >= promised || wanted >= promised) return wanted;
  // What is left afterwards must have room for that one.
  const bool possible = regions_left > 1 && room - wanted >= promised;
  return possible ? wanted : promised;
}

absl::Status BufferPool::AddRegion(uint64_t bytes) {
  ASSIGN_OR_RETURN(RegisteredMemory memory,
                   RegisteredMemory::Create(pd_, bytes, options_.access));
  regions_.push_back(std::unique_ptr<RegionState>(
      new RegionState{std::move(memory), BuddyAllocator(bytes)}));
  registered_bytes_ += bytes;
  return absl::OkStatus();
}

void BufferPool::Free(const Buffer& buffer) {
  const std::lock_guard lock(mutex_);
  CHECK_LT(buffer.region_, regions_.size());
  regions_[buffer.region_]->allocator.Free(buffer.offset_, buffer.size_);
  allocated_bytes_ -= BuddyAllocator::BlockBytes(buffer.size_);
}

uint32_t BufferPool::region_count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<uint32_t>(regions_.size());
}

BufferPool::Region BufferPool::region(uint32_t index) const {
  const std::lock_guard lock(mutex_);
  CHECK_LT(index, regions_.size());
  const RegisteredMemory& memory = regions_[index]->memory;
  return {.address = reinterpret_cast<uint64_t>(memory.data()),
          .bytes = memory.size(),
          .rkey = memory.rkey()};
}

uint64_t BufferPool::registered_bytes() const {
  const std::lock_guard lock(mutex_);
  return registered_bytes_;
}

uint64_t BufferPool::allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  return allocated_bytes_;
}

}  // namespace verbena::transport
