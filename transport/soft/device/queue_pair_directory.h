// The queue pairs of this process by number.

#ifndef VERBENA_TRANSPORT_SOFT_DEVICE_QUEUE_PAIR_DIRECTORY_H_
#define VERBENA_TRANSPORT_SOFT_DEVICE_QUEUE_PAIR_DIRECTORY_H_

#include <cstdint>
#include <functional>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/soft/device/device_queue_pair.h"
#include "transport/soft/link/number_blocks.h"

namespace verbena::soft {

// Thread-safe.
class QueuePairDirectory {
 public:
  QueuePairDirectory() = default;
  QueuePairDirectory(const QueuePairDirectory&) = delete;
  QueuePairDirectory& operator=(const QueuePairDirectory&) = delete;

  // Gives `qp` a number; 0 when there are too many.
  uint32_t Add(DeviceQueuePair* qp, NumberKind kind);
  void Remove(uint32_t number);

  void ForEach(const std::function<void(DeviceQueuePair&)>& call);

  // Calls `watch` with each socket at which others find numbers of this
  // process: those that there are, and each that is opened later.
  void OnSocket(std::function<void(int socket)> watch);

 private:
  base::Mutex mutex_;
  NumberBlocks numbers_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<uint32_t, DeviceQueuePair*> queue_pairs_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DEVICE_QUEUE_PAIR_DIRECTORY_H_
