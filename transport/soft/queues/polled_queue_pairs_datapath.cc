#include "transport/soft/queues/polled_queue_pairs.h"
#include "transport/soft/queues/queue_pair.h"

namespace verbena::soft {

void PolledQueuePairs::Run() {
  // The thread that has the lock runs the queue pairs for both.
  if (!polling_lock_.try_lock()) return;
  // Relaxed: if this load misses a queue pair, the next poll finds it, and
  // TakeBack() acquires the list.
  if (returning_.load(std::memory_order_relaxed) != nullptr) TakeBack();
  for (QueuePair* qp : polled_) qp->Poll();
  polling_lock_.unlock();
}

}  // namespace verbena::soft
