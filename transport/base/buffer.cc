#include "transport/base/buffer.h"

#include <new>

#include "transport/base/check.h"

namespace verbena::transport {
namespace {

// Alignment that Buffer promises. Copies are fastest from and to multiples of
// it (kPartAlignment in wire/placement.h).
constexpr std::align_val_t kAlignment{64};

// The block of plain memory, which is its own owner.
struct PlainBlock final : BufferBlock, BufferOwner {
  void Recycle(BufferBlock* /*block*/) override {
    // The last Buffer has gone, so nothing refers to the block any more.
    operator delete(data, kAlignment);
    delete this;
  }
};

PlainBlock* NewBlock(void* data, size_t bytes) {
  auto* const block = new PlainBlock;
  block->owner = block;
  block->data = static_cast<uint8_t*>(data);
  block->bytes = bytes;
  return block;
}

}  // namespace

Buffer Buffer::Plain(size_t bytes) {
  if (bytes == 0) return Buffer();
  return Lease(NewBlock(operator new(bytes, kAlignment), bytes), bytes);
}

Buffer Buffer::PlainIfAny(size_t bytes) {
  if (bytes == 0) return Buffer();
  void* const data = operator new(bytes, kAlignment, std::nothrow);
  return data == nullptr ? Buffer() : Lease(NewBlock(data, bytes), bytes);
}

void Buffer::Narrow(size_t offset, size_t bytes) {
  CHECK_GT(bytes, 0u);
  // Compared by a difference, because offset + bytes could overflow.
  CHECK(offset <= size_ && bytes <= size_ - offset)
      << bytes << " bytes at " << offset << " of " << size_;
  data_ += offset;
  size_ = bytes;
}

}  // namespace verbena::transport
