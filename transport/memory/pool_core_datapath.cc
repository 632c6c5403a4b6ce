#include "transport/base/check.h"
#include "transport/memory/pool_core.h"

namespace verbena::transport {

absl::StatusOr<Buffer> PoolCore::Allocate(size_t bytes, PoolAccount* account) {
  CHECK_GT(bytes, 0u);
  if (bytes <= kRegionBytesMax) {
    // A block of the right class that came back is taken without a lock. All
    // other cases need the regions, and the mutex.
    PoolBlock* const block = free_[SizeClassFor(bytes).index].Pop(blocks_);
    if (block != nullptr) return Lease(block, bytes, account);
  }
  return AllocateSlow(bytes, account);
}

// The Buffer counts as a user, so that the core outlives it.
Buffer PoolCore::Lease(PoolBlock* block, size_t bytes, PoolAccount* account) {
  AddUser();
  block->account = account;
  if (account != nullptr) account->BlockOut();
  return Buffer::Lease(block, bytes);
}

// Push() publishes the block, so all that belongs to its last use comes before.
// Relaxed order is enough for `references`, because Push() releases it.
void PoolCore::Recycle(BufferBlock* block) {
  block->references.store(0, std::memory_order_relaxed);
  PoolBlock* const own = static_cast<PoolBlock*>(block);
  if (own->account != nullptr) own->account->BlockBack(own->bytes);
  // From here on another thread may have the block, and set its account.
  free_[own->size_class].Push(own);
  // Last, because the pool may be gone after that.
  RemoveUser();
}

}  // namespace verbena::transport
