#include "absl/base/optimization.h"
#include "transport/soft/queues/polled_queue_pairs.h"
#include "transport/soft/queues/queue_pair.h"

namespace verbena::soft {

// Where there are queue pairs with peers on this host too, most passes leave
// the sockets alone: to look costs a system call, more than all else in a pass.
void PolledQueuePairs::RunReadyStreams() {
  constexpr uint32_t kPassesPerLook = 8;
  const bool others =
      streams_.count() != count_.load(std::memory_order_relaxed);
  if (others && ++runs_ % kPassesPerLook != 0) return;
  StreamWatch::Ready ready;
  for (QueuePair* const qp : streams_.Look(ready)) qp->PollStream();
}

void PolledQueuePairs::Run() {
  // The thread that has the lock runs the queue pairs for both.
  if (!polling_lock_.try_lock()) return;
  // Relaxed: if this load misses a queue pair, the next poll finds it, and
  // TakeBack() acquires the list.
  if (returning_.load(std::memory_order_relaxed) != nullptr) TakeBack();
  if (ABSL_PREDICT_FALSE(watches_streams())) RunReadyStreams();
  for (QueuePair* qp : polled_) qp->Poll();
  polling_lock_.unlock();
}

}  // namespace verbena::soft
