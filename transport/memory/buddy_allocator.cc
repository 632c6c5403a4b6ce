#include "transport/memory/buddy_allocator.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "transport/base/check.h"

namespace verbena::transport {
namespace {

// log2 of the number of smallest blocks in one of `block_bytes`.
uint8_t OrderOf(uint64_t block_bytes) {
  return static_cast<uint8_t>(
      std::countr_zero(block_bytes / BuddyAllocator::kMinBlockBytes));
}

}  // namespace

uint64_t BuddyAllocator::BlockBytes(uint64_t bytes) {
  CHECK_GT(bytes, 0u);
  CHECK_LE(bytes, kMaxCapacity);
  return SizeClassFor(bytes).block_bytes;
}

BuddyAllocator::BuddyAllocator(uint64_t capacity) : capacity_(capacity) {
  CHECK(std::has_single_bit(capacity)) << capacity;
  CHECK_GE(capacity, kMinBlockBytes);
  CHECK_LE(capacity, kMaxCapacity);
  // Every node begins as free: on the level of order k each holds k + 1.
  const uint64_t leaves = capacity / kMinBlockBytes;
  largest_.resize(2 * leaves);
  uint8_t order = OrderOf(capacity);
  for (uint64_t first = 1; first <= leaves; first *= 2, --order) {
    std::fill_n(largest_.begin() + static_cast<std::ptrdiff_t>(first), first,
                static_cast<uint8_t>(order + 1));
  }
}

// Walks down to a free range of the next power of two and takes the block from
// its front. On the way back up it corrects the entries.
std::optional<uint64_t> BuddyAllocator::Allocate(uint64_t bytes) {
  CHECK_GT(bytes, 0u);
  if (bytes > capacity_) return std::nullopt;
  const uint64_t block_bytes = BlockBytes(bytes);
  const uint64_t range_bytes = std::bit_ceil(block_bytes);
  const uint8_t wanted = OrderOf(range_bytes) + 1;
  if (largest_[1] < wanted) return std::nullopt;

  uint64_t node = 1;
  for (uint8_t level = OrderOf(capacity_) + 1; level > wanted; --level) {
    const uint8_t left = largest_[2 * node];
    const uint8_t right = largest_[2 * node + 1];
    const bool go_left = left >= wanted && (right < wanted || left <= right);
    node = 2 * node + (go_left ? 0 : 1);
  }
  // On the level of the wanted size a node is free as a whole or too small.
  CHECK_EQ(largest_[node], wanted);
  Take(node, OrderOf(range_bytes), block_bytes);

  const uint64_t index = node - std::bit_floor(node);  // On its level.
  for (uint8_t order = wanted; node > 1; ++order) {
    node /= 2;
    Update(node, order);
  }
  return index * range_bytes;
}

void BuddyAllocator::Free(uint64_t offset, uint64_t bytes) {
  const uint64_t block_bytes = BlockBytes(bytes);
  const uint64_t range_bytes = std::bit_ceil(block_bytes);
  CHECK_LT(offset, capacity_);
  CHECK_LE(range_bytes, capacity_ - offset);
  CHECK(offset % range_bytes == 0) << offset << " is not a block of " << bytes;

  uint8_t order = OrderOf(range_bytes);
  // In heap order, a level of n nodes begins with node n; this level has
  // capacity_ / range_bytes.
  uint64_t node = (capacity_ + offset) / range_bytes;
  Give(node, order, block_bytes);
  // Update() joins the range with its buddy wherever both are free.
  while (node > 1) {
    node /= 2;
    Update(node, ++order);
  }
}

// A block of less than the whole range takes its first half as a whole and a
// part of the second, or a part of the first half alone.
void BuddyAllocator::Take(uint64_t node, uint8_t order, uint64_t bytes) {
  const uint64_t half = (kMinBlockBytes << order) / 2;
  if (bytes == 2 * half) {
    largest_[node] = 0;
    return;
  }
  if (bytes > half) {
    // The first half is taken as a whole, so nodes below it stay as they were.
    largest_[2 * node] = 0;
    Take(2 * node + 1, order - 1, bytes - half);
  } else {
    Take(2 * node, order - 1, bytes);
  }
  largest_[node] = std::max(largest_[2 * node], largest_[2 * node + 1]);
}

// Visits the pieces that Take() took for a block of that size, so a block that
// was not allocated so is found out.
void BuddyAllocator::Give(uint64_t node, uint8_t order, uint64_t bytes) {
  const uint64_t half = (kMinBlockBytes << order) / 2;
  if (bytes == 2 * half) {
    CHECK(largest_[node] == 0 &&
          (order == 0 ||
           (largest_[2 * node] == order && largest_[2 * node + 1] == order)))
        << "block of order " << int{order} << " at node " << node
        << ": freed twice, or never allocated so";
    largest_[node] = order + 1;
    return;
  }
  Give(2 * node, order - 1, std::min(bytes, half));
  if (bytes > half) Give(2 * node + 1, order - 1, bytes - half);
  Update(node, order);
}

void BuddyAllocator::Update(uint64_t node, uint8_t order) {
  const uint8_t left = largest_[2 * node];
  const uint8_t right = largest_[2 * node + 1];
  const bool whole = left == order && right == order;
  largest_[node] = whole ? order + 1 : std::max(left, right);
}

uint64_t BuddyAllocator::largest_free_block() const {
  return largest_[1] == 0 ? 0 : kMinBlockBytes << (largest_[1] - 1);
}

}  // namespace verbena::transport
