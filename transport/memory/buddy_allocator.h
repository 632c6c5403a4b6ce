// Divides a range into blocks.

#ifndef VERBENA_TRANSPORT_MEMORY_BUDDY_ALLOCATOR_H_
#define VERBENA_TRANSPORT_MEMORY_BUDDY_ALLOCATOR_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "transport/memory/size_classes.h"

namespace verbena::transport {

// Hands out offsets in a range of `capacity` bytes, and never touches the range
// itself: what it knows stands in a table of two bytes for every smallest
// block, made at construction. Nothing is allocated after that, and every
// operation visits one node on each level of the tree.
//
// A block is cut from the front of a free range of the next power of two; the
// part behind it stays free. A range that becomes free while its buddy is free
// is joined with it at once. On its way down the tree the allocator prefers the
// half that has less to offer, so that large ranges stay whole, and of equal
// halves the lower.
//
// Not thread-safe.
class BuddyAllocator {
 public:
  static constexpr uint64_t kMinBlockBytes = transport::kMinBlockBytes;
  static constexpr uint64_t kMaxCapacity = uint64_t{1} << 40;

  // Returns the bytes that a block for `bytes` occupies: those of its size
  // class. REQUIRES: 0 < bytes <= kMaxCapacity.
  static uint64_t BlockBytes(uint64_t bytes);

  // REQUIRES: a power of two, from kMinBlockBytes to kMaxCapacity.
  explicit BuddyAllocator(uint64_t capacity);

  // Returns the offset of a block of BlockBytes(bytes), aligned to the next
  // power of two; none if no free range is large enough. REQUIRES: bytes > 0.
  std::optional<uint64_t> Allocate(uint64_t bytes);

  // Takes a block back. Aborts unless these very bytes are allocated.
  // REQUIRES: `offset` came from Allocate() for the same BlockBytes(bytes).
  void Free(uint64_t offset, uint64_t bytes);

  uint64_t capacity() const { return capacity_; }
  // The largest power of two that Allocate() could give now; 0 if none.
  uint64_t largest_free_block() const;

 private:
  // Takes the first `bytes` of `node`, a range of that order which is free as a
  // whole, or gives them back.
  void Take(uint64_t node, uint8_t order, uint64_t bytes);
  void Give(uint64_t node, uint8_t order, uint64_t bytes);
  // Computes the entry of a node anew from those of its halves.
  void Update(uint64_t node, uint8_t order);

  const uint64_t capacity_;

  // A complete binary tree in the order of a heap: node 1 is the whole range,
  // the halves of node n are 2n and 2n + 1. Each node holds the order of the
  // largest free range in it, plus one; 0 if there is none. A range of order k
  // has kMinBlockBytes << k bytes. A node that is allocated as a whole holds 0
  // itself, and all nodes below it stay as they were when it was free: that
  // tells it from a node whose halves are used up.
  std::vector<uint8_t> largest_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_MEMORY_BUDDY_ALLOCATOR_H_
