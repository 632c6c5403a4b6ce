// The share that one user of a pool has of it, bounded so that none takes all.

#ifndef VERBENA_TRANSPORT_MEMORY_POOL_ACCOUNT_H_
#define VERBENA_TRANSPORT_MEMORY_POOL_ACCOUNT_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "transport/base/limits.h"
#include "transport/memory/size_classes.h"

namespace verbena::transport {

// The bytes that all accounts of one pool have together.
struct PoolUse {
  const uint64_t max_bytes;  // The pool's limit.
  std::atomic<uint64_t> taken_bytes{0};
};

// Counts the blocks that one user of a pool, such as a connection, has out of
// it, whoever holds them, and those that it is about to allocate. A user that
// has some gets more only as long as it then has no more than kPoolShare times
// what all accounts leave free. So one alone comes to all but a small part of
// the pool, which is there for whoever comes next; and the more users there are
// that take what they can get, the less each of them gets.
//
// Any thread. It lives until it was closed and its last block has come back.
class PoolAccount {
 public:
  struct Closer {
    void operator()(PoolAccount* account) const { account->Drop(1); }
  };
  using Owner = std::unique_ptr<PoolAccount, Closer>;

  // `use` is the pool's: it outlives every block, and every Reserve().
  static Owner Open(PoolUse& use) { return Owner(new PoolAccount(use)); }
  PoolAccount(const PoolAccount&) = delete;
  PoolAccount& operator=(const PoolAccount&) = delete;

  // Whether blocks of `bytes` in all may be taken; if so, they are counted. An
  // account that has nothing may always take them: the pool knows whether it
  // has so much.
  bool Reserve(uint64_t bytes) {
    const uint64_t before =
        Bytes(state_.fetch_add(Pages(bytes), std::memory_order_relaxed));
    const uint64_t taken =
        use_.taken_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (before == 0) return true;
    const uint64_t left = use_.max_bytes > taken ? use_.max_bytes - taken : 0;
    if ((before + bytes) / kPoolShare <= left) return true;
    Unreserve(bytes);
    return false;
  }
  // Undoes Reserve(bytes): the blocks were not taken after all.
  void Unreserve(uint64_t bytes) {
    use_.taken_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    Drop(Pages(bytes));
  }

  // For the pool: a block that was reserved is out, and comes back.
  void BlockOut() { state_.fetch_add(1, std::memory_order_relaxed); }
  void BlockBack(uint64_t bytes) {
    use_.taken_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    Drop(Pages(bytes) + 1);
  }

  uint64_t bytes() const {
    return Bytes(state_.load(std::memory_order_relaxed));
  }

 private:
  // In state_: pages in the high half, blocks and the owner in the low one.
  static constexpr int kPagesShift = 32;
  static uint64_t Pages(uint64_t bytes) {
    return bytes / kMinBlockBytes << kPagesShift;
  }
  static uint64_t Bytes(uint64_t state) {
    return (state >> kPagesShift) * kMinBlockBytes;
  }

  explicit PoolAccount(PoolUse& use) : use_(use) {}
  ~PoolAccount() = default;

  void Drop(uint64_t state) {
    if (state_.fetch_sub(state, std::memory_order_acq_rel) == state) {
      delete this;
    }
  }

  PoolUse& use_;
  std::atomic<uint64_t> state_{1};
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_MEMORY_POOL_ACCOUNT_H_
