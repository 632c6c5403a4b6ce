// The right to poll, as a lock that is only ever tried.

#ifndef VERBENA_RPC_INTERNAL_POLLER_ROLE_H_
#define VERBENA_RPC_INTERNAL_POLLER_ROLE_H_

#include <atomic>
#include <cstdint>

namespace verbena::internal {

// Held by one thread at a time; what a holder did happens before what the next
// one does. Knows its holder, so that a thread can tell whether it is the one.
//
// All operations are sequentially consistent, for this hand-shake: a releaser
// looks for work after Release(), and who adds work calls TryAcquire() after
// it; so one of the two sees the work.
class PollerRole {
 public:
  // Never blocks. False also when this thread holds it already.
  bool TryAcquire() {
    uintptr_t holder = holder_.load(std::memory_order_seq_cst);
    return holder == kNobody &&
           holder_.compare_exchange_strong(holder, ThisThread(),
                                           std::memory_order_seq_cst);
  }

  // REQUIRES: HeldByThisThread().
  void Release() { holder_.store(kNobody, std::memory_order_seq_cst); }

  // Whether anybody holds it just now.
  bool Held() const {
    return holder_.load(std::memory_order_relaxed) != kNobody;
  }

  bool HeldByThisThread() const {
    return holder_.load(std::memory_order_relaxed) == ThisThread();
  }

 private:
  static constexpr uintptr_t kNobody = 0;

  // A number that no other living thread has.
  static uintptr_t ThisThread() {
    static thread_local const char anchor = 0;
    return reinterpret_cast<uintptr_t>(&anchor);
  }

  std::atomic<uintptr_t> holder_{kNobody};
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_POLLER_ROLE_H_
