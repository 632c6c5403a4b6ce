#include "transport/soft/device/queue_pair_directory.h"

#include <utility>

#include "transport/soft/base/limits.h"

namespace verbena::soft {

uint32_t QueuePairDirectory::Add(DeviceQueuePair* qp, NumberKind kind) {
  const base::MutexLock lock(mutex_);
  if (queue_pairs_.size() >= kQueuePairsMax) return 0;
  const uint32_t number = numbers_.Take(kind);
  if (number != 0) queue_pairs_[number] = qp;
  return number;
}

void QueuePairDirectory::Remove(uint32_t number) {
  const base::MutexLock lock(mutex_);
  queue_pairs_.erase(number);
  numbers_.Return(number);
}

void QueuePairDirectory::ForEach(
    const std::function<void(DeviceQueuePair&)>& call) {
  // Held during the calls, so that no queue pair is destroyed meanwhile: its
  // destructor waits in Remove().
  const base::MutexLock lock(mutex_);
  for (const auto& [number, qp] : queue_pairs_) call(*qp);
}

void QueuePairDirectory::OnSocket(std::function<void(int socket)> watch) {
  const base::MutexLock lock(mutex_);
  numbers_.OnSocket(std::move(watch));
}

}  // namespace verbena::soft
