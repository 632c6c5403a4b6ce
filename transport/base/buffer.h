// Bytes that a device may reach, handed from hand to hand without a copy.

#ifndef VERBENA_TRANSPORT_BASE_BUFFER_H_
#define VERBENA_TRANSPORT_BASE_BUFFER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/types/span.h"

namespace verbena::transport {

struct BufferBlock;

// Where blocks go when nobody needs them any more.
class BufferOwner {
 public:
  // `block` is the owner's again. Any thread.
  virtual void Recycle(BufferBlock* block) = 0;

 protected:
  ~BufferOwner() = default;
};

// For owners: one block of memory, which any number of Buffers share. Stands
// beside the memory, never in it: a peer may be allowed to write that.
struct BufferBlock {
  std::atomic<uint32_t> references{0};  // Buffers on it.
  std::atomic<uint32_t> next{0};        // The owner's; in a list of free ones.
  BufferOwner* owner = nullptr;
  uint8_t* data = nullptr;
  uint64_t bytes = 0;
  uint32_t lkey = 0;
  uint32_t rkey = 0;
  uint32_t offset = 0;
  uint16_t region = 0;
  uint8_t size_class = 0;
};

// A handle on bytes in memory that a device may access, or on plain memory
// where there is none. Share() makes another handle on the same bytes; the
// memory is given back when the last one is gone, on whatever thread that is.
// It may outlive the connection and the channel that it came from.
//
// Bytes are not cleared. A block begins on a multiple of 64. A handle is for
// one thread at a time; handles that share bytes may be on different threads,
// and who writes must know that nobody reads.
class Buffer {
 public:
  // Plain memory. Empty for zero bytes.
  static Buffer Plain(size_t bytes);
  // As Plain(), but also empty if there is no memory.
  static Buffer PlainIfAny(size_t bytes);

  Buffer() = default;
  Buffer(Buffer&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      Reset();
      block_ = std::exchange(other.block_, nullptr);
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }
  ~Buffer() { Reset(); }

  bool empty() const { return block_ == nullptr; }
  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  absl::Span<uint8_t> span() const { return {data_, size_}; }

  // Another handle on these bytes.
  Buffer Share() const {
    if (block_ == nullptr) return Buffer();
    block_->references.fetch_add(1, std::memory_order_relaxed);
    return Buffer(block_, data_, size_);
  }

  // Makes this a handle on part of its bytes.
  // REQUIRES: offset + bytes <= size(), bytes > 0.
  void Narrow(size_t offset, size_t bytes);

  // Makes this a handle on all that its block has from data() on.
  // REQUIRES: !empty().
  void Extend() { size_ = room(); }

  // Gives its share of the memory back now.
  void Reset() {
    if (block_ == nullptr) return;
    BufferBlock* const block = std::exchange(block_, nullptr);
    data_ = nullptr;
    size_ = 0;
    // The only handle to a block gives it back without a read-modify-write.
    if (block->references.load(std::memory_order_acquire) == 1 ||
        block->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      block->owner->Recycle(block);
    }
  }

  // For the transport. All but owner() and block_bytes() mean something only if
  // the owner is the pool that is asked.
  const BufferOwner* owner() const {
    return block_ == nullptr ? nullptr : block_->owner;
  }
  // From data() to the end of the block: at least size().
  uint64_t room() const {
    return block_->bytes - static_cast<uint64_t>(data_ - block_->data);
  }
  uint32_t lkey() const { return block_->lkey; }
  uint32_t rkey() const { return block_->rkey; }
  // Which region of the pool it is in, and where: how a peer that was told of
  // the region names these bytes.
  uint16_t region() const { return block_->region; }
  uint32_t offset() const {
    return block_->offset + static_cast<uint32_t>(data_ - block_->data);
  }

  // For owners: the first handle on a block that nobody has.
  static Buffer Lease(BufferBlock* block, size_t bytes) {
    block->references.store(1, std::memory_order_relaxed);
    return Buffer(block, block->data, bytes);
  }

 private:
  Buffer(BufferBlock* block, uint8_t* data, size_t size)
      : block_(block), data_(data), size_(size) {}

  BufferBlock* block_ = nullptr;  // Null when empty.
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_BASE_BUFFER_H_
