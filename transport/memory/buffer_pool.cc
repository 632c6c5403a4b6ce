#include "transport/memory/buffer_pool.h"

#include <algorithm>
#include <bit>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/base/status_macros.h"

namespace verbena::transport {
namespace {

// Indices of regions have 16 bits.
constexpr uint32_t kRegionsMax = UINT16_MAX + 1;

// Checks each option by itself, then whether the largest buffer fits a region
// and the limit.
absl::Status CheckOptions(const BufferPool::Options& options) {
  const uint64_t first = options.first_region_bytes;
  // Buddy allocators divide powers of two.
  if (!std::has_single_bit(first) || first < BuddyAllocator::kMinBlockBytes ||
      first > PoolCore::kRegionBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the first region has ", first, " bytes: must be a power of two from ",
        BuddyAllocator::kMinBlockBytes, " to ", PoolCore::kRegionBytesMax));
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
  // A buffer lies within one region, in a range of the next power of two.
  const uint64_t promised = std::bit_ceil(options.largest_bytes);
  if (promised > std::min(options.max_bytes, PoolCore::kRegionBytesMax)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "at most ", options.max_bytes, " bytes may be registered, too few for ",
        "one buffer of ", options.largest_bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<BufferPool>> BufferPool::Create(
    const ProtectionDomain& pd, const Options& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  auto pool = absl::WrapUnique(new BufferPool(new PoolCore(pd, options)));
  RETURN_IF_ERROR(pool->core_->AddFirstRegion());
  return pool;
}

Buffer BufferSource::AllocateSpare(size_t bytes) const {
  if (core_ != nullptr) {
    absl::StatusOr<Buffer> buffer = core_->AllocateSpare(bytes);
    if (buffer.ok()) return *std::move(buffer);
  }
  // Plain memory serves as well where nothing is to spare, at the cost of a
  // copy.
  return Buffer::PlainIfAny(bytes);
}

BufferPool::~BufferPool() {
  // Buffers that still exist are users of the core as well, and keep its
  // memory.
  core_->Close();
  core_->RemoveUser();
}

}  // namespace verbena::transport
