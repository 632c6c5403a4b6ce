// Descriptors of blocks, by number, and lists of them that need no lock.

#ifndef VERBENA_TRANSPORT_MEMORY_BLOCK_TABLE_H_
#define VERBENA_TRANSPORT_MEMORY_BLOCK_TABLE_H_

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "transport/base/buffer.h"

namespace verbena::transport {

class PoolAccount;

// A descriptor that knows its number.
struct PoolBlock final : BufferBlock {
  uint32_t number = 0;
  // The account that the block counts on; null if it counts on none.
  PoolAccount* account = nullptr;
};

// Descriptors stay where they are and exist until the table is destroyed: a
// thread that reads one late may find it old, but never gone. Add() is for one
// thread at a time; At() is for any thread, and for numbers that Add() has
// returned. The chunk is released by Add() and acquired by At(), so its
// descriptors are there.
class BlockTable {
 public:
  BlockTable() = default;
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;
  ~BlockTable() {
    for (std::atomic<PoolBlock*>& chunk : chunks_) delete[] chunk.load();
  }

  PoolBlock* Add() {
    const Place place = PlaceOf(count_);
    if (place.index == 0) {
      chunks_[place.chunk].store(new PoolBlock[kFirstChunk << place.chunk],
                                 std::memory_order_release);
    }
    PoolBlock* const block = At(count_);
    block->number = count_++;
    return block;
  }

  PoolBlock* At(uint32_t number) const {
    const Place place = PlaceOf(number);
    return chunks_[place.chunk].load(std::memory_order_acquire) + place.index;
  }

  uint32_t size() const { return count_; }  // For the thread that adds.

 private:
  // Each chunk is twice as long as the one before.
  static constexpr uint32_t kFirstChunk = 64;
  static constexpr uint32_t kChunks = 26;

  struct Place {
    uint32_t chunk;
    uint32_t index;
  };
  static Place PlaceOf(uint32_t number) {
    const uint32_t chunk =
        static_cast<uint32_t>(std::bit_width(number / kFirstChunk + 1)) - 1;
    return {chunk, number - kFirstChunk * ((uint32_t{1} << chunk) - 1)};
  }

  std::array<std::atomic<PoolBlock*>, kChunks> chunks_ = {};
  uint32_t count_ = 0;
};

// A list of free blocks, last in first out, for any number of threads. The
// number of changes stands beside the number of the first block, so a thread
// that was away does not take an old list for the present one (ABA).
//
// Push() releases the block, with its `next`, and Pop() acquires it: also one
// that was pushed long before, because each change in between is an exchange of
// the head, which passes on what was released there.
class BlockStack {
 public:
  void Push(PoolBlock* block) {
    uint64_t head = head_.load(std::memory_order_relaxed);
    uint64_t wanted;
    do {
      block->next.store(static_cast<uint32_t>(head), std::memory_order_relaxed);
      wanted = Successor(head) | (block->number + 1);
    } while (!head_.compare_exchange_weak(
        head, wanted, std::memory_order_release, std::memory_order_relaxed));
  }

  // Null if the list is empty.
  PoolBlock* Pop(const BlockTable& table) {
    uint64_t head = head_.load(std::memory_order_acquire);
    while (true) {
      const uint32_t first = static_cast<uint32_t>(head);
      if (first == 0) return nullptr;
      PoolBlock* const block = table.At(first - 1);
      // If another thread has taken the block meanwhile, `next` may be old, and
      // then the exchange fails.
      const uint32_t next = block->next.load(std::memory_order_relaxed);
      if (head_.compare_exchange_weak(head, Successor(head) | next,
                                      std::memory_order_acquire,
                                      std::memory_order_acquire)) {
        return block;
      }
    }
  }

 private:
  static uint64_t Successor(uint64_t head) { return ((head >> 32) + 1) << 32; }

  // The number of changes, and that of the first block plus one (0: empty).
  std::atomic<uint64_t> head_{0};
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_MEMORY_BLOCK_TABLE_H_
