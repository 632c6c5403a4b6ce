#include "transport/base/buffer.h"

#include <new>

#include "transport/base/check.h"

namespace verbena::transport {
namespace {

constexpr std::align_val_t kAlignment{64};

// The block of plain memory, which is its own owner.
struct PlainBlock final : BufferBlock, BufferOwner {
  void Recycle(BufferBlock* /*block*/) override {
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
  CHECK(offset <= size_ && bytes <= size_ - offset)
      << bytes << " bytes at " << offset << " of " << size_;
  data_ += offset;
  size_ = bytes;
}

}  // namespace verbena::transport
