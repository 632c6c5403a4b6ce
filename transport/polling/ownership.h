// Which thread may use something that is confined to one thread at a time.

#ifndef VERBENA_TRANSPORT_POLLING_OWNERSHIP_H_
#define VERBENA_TRANSPORT_POLLING_OWNERSHIP_H_

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "transport/base/check.h"

namespace verbena::transport {

// Whether Ownership::AssertHeld() looks. A small call asserts a dozen times.
#ifdef NDEBUG
inline constexpr bool kChecksOwnership = false;
#else
inline constexpr bool kChecksOwnership = true;
#endif

// The *owner* is one thread at a time. Threads take and release the ownership,
// and never block for it. An owner that is about to run code that may block
// *lends* the ownership. If that takes long, another thread takes over, and the
// former owner learns of it when it reclaims the loan. All that an owner did
// happens before what the next one does.
//
// Clang's thread-safety analysis takes the ownership for a lock: a field marked
// ABSL_GUARDED_BY(ownership_) is touched only by the owner. A function that
// another object calls begins with AssertHeld(); a private one says
// ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_).
//
// TryAcquire() and Release() are sequentially consistent, for this hand-shake:
// a thread that releases looks for work afterwards, and a thread that adds work
// calls TryAcquire() afterwards; so one of the two sees the work. Weaker orders
// would not do: each side writes one variable and then reads the other's.
class ABSL_LOCKABLE Ownership {
 public:
  // Nobody's, a thread's, or a loan of its own number.
  using State = uintptr_t;

  Ownership() = default;
  Ownership(const Ownership&) = delete;
  Ownership& operator=(const Ownership&) = delete;

  // Never blocks. False also when this thread is the owner already.
  bool TryAcquire() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    State state = state_.load(std::memory_order_seq_cst);
    return state == kNobody &&
           state_.compare_exchange_strong(state, ThisThread(),
                                          std::memory_order_seq_cst);
  }

  // REQUIRES: HeldByThisThread().
  void Release() ABSL_UNLOCK_FUNCTION() {
    state_.store(kNobody, std::memory_order_seq_cst);
  }

  // Tells the analysis that this thread is the owner. Builds for debugging,
  // those of the sanitizers among them, check it.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {
    if (kChecksOwnership) CHECK(HeldByThisThread());
  }

  // Whether there is an owner just now, if only one that lends.
  bool Held() const {
    return state_.load(std::memory_order_relaxed) != kNobody;
  }

  bool HeldByThisThread() const {
    return state_.load(std::memory_order_relaxed) == ThisThread();
  }

  // Lends the ownership; returns what Reclaim() needs. Owner only.
  State Lend() {
    const State loan = ++loans_ << 1 | kLent;
    state_.store(loan, std::memory_order_release);
    return loan;
  }
  // Returns whether this thread is the owner again. If not, another thread has
  // taken over, and this one may touch nothing that is the owner's. Only the
  // thread that lends.
  [[nodiscard]] bool Reclaim(State loan) { return TakeOver(loan); }

  // For any other thread: the state to compare with a later one. A loan that
  // is seen twice has gone on all the time between.
  State Look() const { return state_.load(std::memory_order_acquire); }
  static bool IsLent(State state) { return (state & kLent) != 0; }
  // Makes this thread the owner if that loan goes on.
  [[nodiscard]] bool TakeOver(State loan) {
    return state_.compare_exchange_strong(loan, ThisThread(),
                                          std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }

 private:
  static constexpr State kNobody = 0;
  static constexpr State kLent = 1;  // A bit that no address of a thread has.

  // A number that no other living thread has.
  static State ThisThread() {
    alignas(2) static thread_local const char anchor = 0;
    return reinterpret_cast<State>(&anchor);
  }

  std::atomic<State> state_{kNobody};
  State loans_ = 0;  // The owner's: how many there were.
};

// Tells a thread that looks at an ownership now and then whether a loan is
// long. Looks come when they come: after a late one the next may follow at
// once.
class LoanWatch {
 public:
  // A loan is long when it has been seen for so much time.
  static constexpr absl::Duration kLong = absl::Microseconds(500);

  // Returns whether the ownership has been lent for long at `now`, when
  // Ownership::Look() returned `state`.
  bool IsLong(Ownership::State state, absl::Time now) {
    if (state != state_ || now < since_) {
      state_ = state;
      since_ = now;
    }
    return Ownership::IsLent(state) && now - since_ >= kLong;
  }

 private:
  Ownership::State state_ = 0;
  absl::Time since_ = absl::InfinitePast();  // When state_ was first seen.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_POLLING_OWNERSHIP_H_
