// The queue pairs that a poll of one completion queue runs.

#ifndef VERBENA_TRANSPORT_SOFT_QUEUES_POLLED_QUEUE_PAIRS_H_
#define VERBENA_TRANSPORT_SOFT_QUEUES_POLLED_QUEUE_PAIRS_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "transport/soft/base/biased_lock.h"
#include "transport/soft/base/waiter_bell.h"
#include "transport/soft/queues/stream_watch.h"

namespace verbena::soft {

class QueuePair;

// All queue pairs of a completion queue, and which of them a poll need not look
// at, because they are parked: asleep, as if nobody polled, until their peer
// rings or their user posts. So a poll of many connections costs what the busy
// ones cost. With a thousand silent ones an empty poll costs 10 ns, and 8 us if
// none is parked (medians of `idle_probe`); the first message to one that is
// parked costs a doorbell, some 50 us.
//
// Thread-safe.
class PolledQueuePairs {
 public:
  // The state that each queue pair holds for this class.
  struct Parking {
    // Written with the polling lock held. Set with the lock of the queue pair
    // held too, so that a thread that posts sees it.
    std::atomic<bool> parked{false};
    // True while in the list of queue pairs that are to be polled again.
    std::atomic<bool> returning{false};
    QueuePair* next = nullptr;  // The next one in that list.
  };

  // A queue pair that is there already is not added again.
  void Add(QueuePair* qp);
  // Afterwards no poll runs `qp`.
  void Remove(QueuePair* qp);
  bool empty();

  // Runs all queue pairs that are not parked, unless another thread is doing
  // so, which then does it for both. In *_datapath.cc.
  void Run();

  // The completion queue was armed: from now on all queue pairs notice what
  // there is to do though nobody polls.
  void PrepareToSleep();

  // The bell of the channel was rung: has the queue pair that the ring is for
  // answer it. Returns whether that is one of these.
  bool AnswerBell(const WaiterBell::Ring& ring);

  // Sockets of queue pairs whose peers are on other hosts.
  StreamWatch& streams() { return streams_; }
  // Runs the queue pairs whose sockets are ready, for a thread that waits.
  // Returns whether there were any.
  bool AnswerStreams();
  // Whether a poll is to look at the sockets all at once. A single one is
  // looked at by its queue pair.
  bool watches_streams() const { return streams_.count() > 1; }

  // Whether there are so many that silent ones are worth parking.
  bool crowded() const {
    return count_.load(std::memory_order_relaxed) > kPolledAlways;
  }
  // Polls do not run `qp` until it returns. REQUIRES: the lock of `qp` is held;
  // it has gone to sleep and looked once more.
  void Park(QueuePair* qp) ABSL_EXCLUSIVE_LOCKS_REQUIRED(polling_lock_);
  // The next poll runs `qp` again, if it was parked. May be called on any
  // thread, with any lock held.
  void Return(QueuePair* qp);

  // Held while queue pairs are polled. Taken before any queue pair's lock.
  BiasedLock& polling_lock() ABSL_LOCK_RETURNED(polling_lock_) {
    return polling_lock_;
  }

 private:
  static constexpr uint32_t kPolledAlways = 8;

  void RunReadyStreams() ABSL_EXCLUSIVE_LOCKS_REQUIRED(polling_lock_);
  void TakeBack() ABSL_EXCLUSIVE_LOCKS_REQUIRED(polling_lock_);

  BiasedLock polling_lock_;
  // All queue pairs, and those of them that are not parked.
  std::vector<QueuePair*> members_ ABSL_GUARDED_BY(polling_lock_);
  std::vector<QueuePair*> polled_ ABSL_GUARDED_BY(polling_lock_);
  std::atomic<uint32_t> count_{0};  // How many are in members_.
  StreamWatch streams_;
  uint32_t runs_ ABSL_GUARDED_BY(polling_lock_) = 0;
  // The head of the list of queue pairs that are to be polled again.
  std::atomic<QueuePair*> returning_{nullptr};
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_QUEUES_POLLED_QUEUE_PAIRS_H_
