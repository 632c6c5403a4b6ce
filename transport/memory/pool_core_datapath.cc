#include "transport/base/check.h"
#include "transport/memory/pool_core.h"

namespace verbena::transport {

absl::StatusOr<Buffer> PoolCore::Allocate(size_t bytes) {
  CHECK_GT(bytes, 0u);
  if (bytes <= kRegionBytesMax) {
    PoolBlock* const block = free_[SizeClassFor(bytes).index].Pop(blocks_);
    if (block != nullptr) return Lease(block, bytes);
  }
  return AllocateSlow(bytes);
}

Buffer PoolCore::Lease(PoolBlock* block, size_t bytes) {
  AddUser();
  return Buffer::Lease(block, bytes);
}

void PoolCore::Recycle(BufferBlock* block) {
  block->references.store(0, std::memory_order_relaxed);
  free_[block->size_class].Push(static_cast<PoolBlock*>(block));
  RemoveUser();
}

}  // namespace verbena::transport
