#include "transport/soft/queues/polled_queue_pairs.h"

#include <algorithm>

#include "transport/soft/link/link_end.h"
#include "transport/soft/queues/queue_pair.h"

namespace verbena::soft {

void PolledQueuePairs::Add(QueuePair* qp) {
  BiasedLock::Guard lock(polling_lock_);
  // A queue pair comes twice if this queue is both its completion queues.
  if (std::find(members_.begin(), members_.end(), qp) != members_.end()) return;
  members_.push_back(qp);
  polled_.push_back(qp);
  // Relaxed, because crowded() only decides whether parking is worth it.
  count_.store(static_cast<uint32_t>(members_.size()),
               std::memory_order_relaxed);
}

void PolledQueuePairs::Remove(QueuePair* qp) {
  BiasedLock::Guard lock(polling_lock_);
  TakeBack();  // Empties the list at returning_, which may hold `qp`.
  std::erase(members_, qp);
  std::erase(polled_, qp);
  count_.store(static_cast<uint32_t>(members_.size()),
               std::memory_order_relaxed);
}

bool PolledQueuePairs::empty() {
  BiasedLock::Guard lock(polling_lock_);
  return members_.empty();
}

void PolledQueuePairs::PrepareToSleep() {
  BiasedLock::Guard lock(polling_lock_);
  TakeBack();
  bool fence = false;
  // Queue pairs that are parked sleep already.
  for (QueuePair* qp : polled_) fence |= qp->PrepareToSleep();
  // A single fence serves all queue pairs, because a fence costs a system call
  // that interrupts every processor.
  if (fence) LinkEnd::FenceAfterSleep();
  std::erase_if(polled_, [](QueuePair* qp) { return qp->LookAgain(); });
}

bool PolledQueuePairs::AnswerBell(const WaiterBell::Ring& ring) {
  BiasedLock::Guard lock(polling_lock_);
  const auto found = std::find_if(
      members_.begin(), members_.end(),
      [&ring](const QueuePair* qp) { return qp->qp_num == ring.number; });
  if (found == members_.end()) return false;
  (*found)->AnswerBell(ring);
  return true;
}

bool PolledQueuePairs::AnswerStreams() {
  BiasedLock::Guard lock(polling_lock_);
  StreamWatch::Ready ready;
  const auto found = streams_.Look(ready);
  for (QueuePair* const qp : found) qp->AnswerStream();
  return !found.empty();
}

void PolledQueuePairs::Park(QueuePair* qp) {
  qp->parking().parked.store(true, std::memory_order_relaxed);
  std::erase(polled_, qp);
}

// Pushes `qp` onto a list without a lock, which any number of threads may do at
// once. TakeBack() takes the whole list, never one element, so a head that
// comes back meanwhile does no harm. `returning` keeps `qp` from being in the
// list twice; to set it acquires what TakeBack() released when it was done with
// `next`. The push releases `next` to TakeBack(), which acquires it.
void PolledQueuePairs::Return(QueuePair* qp) {
  Parking& parking = qp->parking();
  if (parking.returning.exchange(true, std::memory_order_acq_rel)) return;
  QueuePair* first = returning_.load(std::memory_order_relaxed);
  do {
    parking.next = first;
  } while (!returning_.compare_exchange_weak(
      first, qp, std::memory_order_release, std::memory_order_relaxed));
}

void PolledQueuePairs::TakeBack() {
  QueuePair* qp = returning_.exchange(nullptr, std::memory_order_acquire);
  while (qp != nullptr) {
    Parking& parking = qp->parking();
    QueuePair* const next = parking.next;
    // From now on `qp` may be pushed once more. That does no harm: `next` has
    // been read, and a queue pair that is polled already is not added again.
    parking.returning.store(false, std::memory_order_release);
    // Relaxed, because it is only written with the polling lock held.
    if (parking.parked.load(std::memory_order_relaxed)) {
      parking.parked.store(false, std::memory_order_relaxed);
      polled_.push_back(qp);
    }
    qp = next;
  }
}

}  // namespace verbena::soft
