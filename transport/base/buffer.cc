#include "transport/base/buffer.h"

#include <algorithm>
#include <new>

#include "transport/base/check.h"

namespace verbena::transport {
namespace {

// Alignment that Buffer promises. Copies are fastest from and to multiples of
// it (kPartAlignment in wire/placement.h).
constexpr std::align_val_t kAlignment{64};

// The block of plain memory, which is its own owner. It stands in front of its
// bytes, because no peer can write to either.
struct PlainBlock final : BufferBlock, BufferOwner {
  void Recycle(BufferBlock* /*block*/) override {
    // The last Buffer has gone, so nothing refers to the block any more.
    this->~PlainBlock();
    operator delete(this, kAlignment);
  }
};

// A multiple of kAlignment.
constexpr size_t kBlockBytes = (sizeof(PlainBlock) + 63) / 64 * 64;

// Returns the length of a block of `bytes`. If that overflows, returns a length
// that nobody can allocate.
size_t WithBlock(size_t bytes) { return std::max(bytes, bytes + kBlockBytes); }

Buffer NewPlain(void* memory, size_t bytes) {
  auto* const block = new (memory) PlainBlock;
  block->owner = block;
  block->data = static_cast<uint8_t*>(memory) + kBlockBytes;
  block->bytes = bytes;
  return Buffer::Lease(block, bytes);
}

}  // namespace

Buffer Buffer::Plain(size_t bytes) {
  if (bytes == 0) return Buffer();
  return NewPlain(operator new(WithBlock(bytes), kAlignment), bytes);
}

Buffer Buffer::PlainIfAny(size_t bytes) {
  if (bytes == 0) return Buffer();
  void* const memory = operator new(WithBlock(bytes), kAlignment, std::nothrow);
  return memory == nullptr ? Buffer() : NewPlain(memory, bytes);
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
