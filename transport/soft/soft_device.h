// The software RDMA device of this process: one port, any number of contexts.

#ifndef VERBENA_TRANSPORT_SOFT_SOFT_DEVICE_H_
#define VERBENA_TRANSPORT_SOFT_SOFT_DEVICE_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "transport/soft/engine.h"
#include "transport/soft/gid_table.h"
#include "transport/soft/memory_table.h"

namespace verbena::soft {

class LoopbackLink;
class QueuePair;

// The device, with what all its contexts share: memory keys, queue pair
// numbers, the engine.
//
// Thread-safe.
class SoftDevice {
 public:
  // The device of this process. It is made by the first call and never
  // destroyed, as the devices of libibverbs and librdmacm are not: handles that
  // users hold, and the engine's thread, refer to it until the process ends.
  static SoftDevice& Get();

  SoftDevice();
  SoftDevice(const SoftDevice&) = delete;
  SoftDevice& operator=(const SoftDevice&) = delete;

  ibv_device* verbs_device() { return &device_; }
  Engine& engine() { return engine_; }
  MemoryTable& memory() { return memory_; }

  // A new context, owned by the caller, who closes it with the verb
  // close_device; null and errno when out of descriptors.
  ibv_context* OpenContext();

  // The addresses of the one port.
  GidTable& gids() { return gids_; }

  // Gives `qp` a random unused number of 24 bits; 0 when there are too many.
  uint32_t AddQueuePair(QueuePair* qp);
  void RemoveQueuePair(uint32_t number);

  // Waits until every copy that was under way is finished: afterwards nobody
  // touches a region that was removed before.
  void WaitForDataPath();

  // Connects `qp`, on its way to RTR with destination `peer_number`, to the
  // queue pair of that number in this process: the first of the two makes the
  // link and the second finds it. Null when there is no such queue pair.
  std::unique_ptr<LoopbackLink> Connect(QueuePair& qp, uint32_t peer_number);
  // Drops the links that wait for `number` or that it made for others.
  void DropHalfLinks(uint32_t number);

 private:
  ibv_device device_ = {};
  Engine engine_;
  MemoryTable memory_;
  GidTable gids_;

  // State below is protected by mutex_.
  std::mutex mutex_;
  std::unordered_map<uint32_t, QueuePair*> queue_pairs_;  // By number.
  // Made by queue pair `first` of the key for `second` to take.
  std::map<std::pair<uint32_t, uint32_t>, std::unique_ptr<LoopbackLink>>
      half_links_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_SOFT_DEVICE_H_
