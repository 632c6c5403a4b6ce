// Faults for tests: a link that is held.

#ifndef VERBENA_TRANSPORT_SOFT_CONNECTED_HELD_LINK_H_
#define VERBENA_TRANSPORT_SOFT_CONNECTED_HELD_LINK_H_

#include <atomic>
#include <chrono>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "transport/soft/base/biased_lock.h"
#include "transport/soft/base/clock.h"
#include "transport/soft/link/link_end.h"

namespace verbena::soft {

class ConnectedQueuePair;

// Holds the link of a queue pair for soft_faults.h. A HeldLink takes the end of
// the link away from the queue pair and keeps it. The data path then finds a
// queue pair without a link, so it needs no check for held links.
//
// A HeldLink is a part of the queue pair, which outlives it.
class HeldLink {
 public:
  using TimePoint = Clock::TimePoint;
  enum class Hold { kNone, kStalled, kCut, kSlow };

  // `lock` is the lock of `qp`.
  HeldLink(ConnectedQueuePair& qp, BiasedLock& lock) : qp_(qp), lock_(lock) {}
  HeldLink(const HeldLink&) = delete;
  HeldLink& operator=(const HeldLink&) = delete;

  // These are called by any thread, without a lock of the queue pair.

  // Replaces the hold before. `next_pause`, which only kSlow needs, says how
  // long the link rests before it moves the next time.
  void Begin(Hold hold,
             std::function<std::chrono::nanoseconds()> next_pause = {});
  void Release();
  bool active() const { return hold_ != Hold::kNone; }
  // Called instead of ConnectedQueuePair::OnTick() while it is active.
  TimePoint OnTick(TimePoint now);

  // These are called with the lock of the queue pair held.

  // Whether the hold hides the state of the peer, so that nobody gives up on
  // it. A slow link learns whether the peer is there while it moves, a stalled
  // one not at all.
  bool HidesPeer() const {
    return hold_ == Hold::kStalled || hold_ == Hold::kSlow;
  }
  // The queue pair has opened its link, or has entered RTR without one. Takes
  // the link if there is one.
  void Take();
  // The queue pair gives its link up.
  void GiveBack();

 private:
  void TakeEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void MoveOn(TimePoint now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);

  ConnectedQueuePair& qp_;
  BiasedLock& lock_;                     // The lock of qp_.
  std::atomic<Hold> hold_{Hold::kNone};  // Written under the lock.
  // The end of the link; attached while it is kept from the queue pair.
  LinkEnd end_ ABSL_GUARDED_BY(lock_);
  std::function<std::chrono::nanoseconds()> next_pause_ ABSL_GUARDED_BY(lock_);
  // When a slow link moves on.
  TimePoint next_move_ ABSL_GUARDED_BY(lock_) = TimePoint::max();
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CONNECTED_HELD_LINK_H_
