// Divides a range into blocks of power-of-two sizes.

#ifndef VERBENA_TRANSPORT_MEMORY_BUDDY_ALLOCATOR_H_
#define VERBENA_TRANSPORT_MEMORY_BUDDY_ALLOCATOR_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace verbena::transport {

// Hands out offsets in a range of `capacity` bytes, and never touches the range
// itself: what it knows stands in a table of two bytes for every smallest
// block, made at construction. Nothing is allocated after that, and every
// operation visits one node on each level of the tree.
//
// A block that is free together with its buddy becomes one of twice the size
// again at once. On its way down the tree it prefers the half that has less to
// offer, so that large blocks stay whole, and of equal ones the lower.
//
// Not thread-safe.
class BuddyAllocator {
 public:
  static constexpr uint64_t kMinBlockBytes = 4096;
  static constexpr uint64_t kMaxCapacity = uint64_t{1} << 40;

  // What a block for `bytes` occupies: the next power of two, at least
  // kMinBlockBytes. REQUIRES: 0 < bytes <= kMaxCapacity.
  static uint64_t BlockBytes(uint64_t bytes);

  // REQUIRES: a power of two, from kMinBlockBytes to kMaxCapacity.
  explicit BuddyAllocator(uint64_t capacity);

  // The offset of a block of BlockBytes(bytes), aligned to its own size; none
  // if no free block is large enough. REQUIRES: bytes > 0.
  std::optional<uint64_t> Allocate(uint64_t bytes);

  // Takes a block back. Aborts unless exactly this block is out.
  // REQUIRES: `offset` came from Allocate() for the same BlockBytes(bytes).
  void Free(uint64_t offset, uint64_t bytes);

  uint64_t capacity() const { return capacity_; }
  // The largest block that Allocate() could give now; 0 if none.
  uint64_t largest_free_block() const;

 private:
  const uint64_t capacity_;

  // A complete binary tree in the order of a heap: node 1 is the whole range,
  // the halves of node n are 2n and 2n + 1. Each holds the order of the largest
  // free block in it, plus one; 0 if none, where a block of order k has
  // kMinBlockBytes << k bytes. A block that is out holds 0 itself, and all
  // nodes below it stay as they were when it was free: that tells it from a
  // node whose halves are used up.
  std::vector<uint8_t> largest_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_MEMORY_BUDDY_ALLOCATOR_H_
