// The right to poll a channel's connections, as a lock that is only ever tried.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_POLLING_ROLE_H_
#define VERBENA_RPC_INTERNAL_CLIENT_POLLING_ROLE_H_

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "transport/base/check.h"

namespace verbena::internal {

// Whether PollingRole::AssertHeld() looks. A small call asserts a dozen times.
#ifdef NDEBUG
inline constexpr bool kChecksRole = false;
#else
inline constexpr bool kChecksRole = true;
#endif

// Held by one thread at a time; what a holder did happens before what the next
// one does. It knows its holder, so that a thread can tell whether it is the
// one.
//
// Clang's thread-safety analysis takes it for a lock: a field marked
// ABSL_GUARDED_BY(role_) is touched only by the holder. A function that another
// object calls with the role held begins with AssertHeld(); a private one says
// ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_).
//
// All operations are sequentially consistent, for this hand-shake: a releaser
// looks for work after Release(), and who adds work calls TryAcquire() after
// it; so one of the two sees the work. Weaker orders would not do: each side
// writes one variable and then reads the other's.
class ABSL_LOCKABLE PollingRole {
 public:
  PollingRole() = default;
  PollingRole(const PollingRole&) = delete;
  PollingRole& operator=(const PollingRole&) = delete;

  // Never blocks. False also when this thread holds it already.
  bool TryAcquire() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    uintptr_t holder = holder_.load(std::memory_order_seq_cst);
    return holder == kNobody &&
           holder_.compare_exchange_strong(holder, ThisThread(),
                                           std::memory_order_seq_cst);
  }

  // REQUIRES: HeldByThisThread().
  void Release() ABSL_UNLOCK_FUNCTION() {
    holder_.store(kNobody, std::memory_order_seq_cst);
  }

  // Tells the analysis that this thread holds the role. Builds for debugging,
  // those of the sanitizers among them, check it.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {
    if (kChecksRole) CHECK(HeldByThisThread());
  }

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

  // ThisThread() of the holder, or kNobody.
  std::atomic<uintptr_t> holder_{kNobody};
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_POLLING_ROLE_H_
