#include "transport/base/check.h"
#include "transport/memory/pool_core.h"

namespace verbena::transport {

absl::StatusOr<Buffer> PoolCore::Allocate(size_t bytes, PoolAccount* account) {
  CHECK_GT(bytes, 0u);
  if (bytes <= kRegionBytesMax) {
    PoolBlock* const block = free_[SizeClassFor(bytes).index].Pop(blocks_);
    if (block != nullptr) return Lease(block, bytes, account);
  }
  return AllocateSlow(bytes, account);
}

Buffer PoolCore::Lease(PoolBlock* block, size_t bytes, PoolAccount* account) {
  AddUser();
  block->account = account;
  if (account != nullptr) account->BlockOut();
  return Buffer::Lease(block, bytes);
}

void PoolCore::Recycle(BufferBlock* block) {
  block->references.store(0, std::memory_order_relaxed);
  PoolBlock* const own = static_cast<PoolBlock*>(block);
  if (own->account != nullptr) own->account->BlockBack(own->bytes);
  free_[own->size_class].Push(own);
  RemoveUser();
}

}  // namespace verbena::transport
