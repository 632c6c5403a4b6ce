// Connecting manually: with dest_qp_num and ah_attr, without the connection
// manager.

#ifndef VERBENA_TRANSPORT_SOFT_CONNECTED_MANUAL_CONNECTION_H_
#define VERBENA_TRANSPORT_SOFT_CONNECTED_MANUAL_CONNECTION_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "transport/soft/device/manual_link.h"
#include "transport/soft/device/queue_pair_directory.h"
#include "transport/soft/device/soft_device.h"

namespace verbena::soft {

// The link of a queue pair that was connected manually, and for whose link it
// waits. Not thread-safe, except awaits(): protected by the mutex under which
// the queue pair is modified.
class ManualConnection {
 public:
  explicit ManualConnection(SoftDevice& device) : device_(device) {}

  // Makes or finds the link of queue pair `own` to the one that `attributes`
  // name. Null when it is for the peer to make it: from now on it is awaited. A
  // number that nobody has is as legal as on a NIC: what is sent to it ends
  // with its retries exceeded.
  ManualLink* Connect(uint32_t own, const ibv_qp_attr& attributes);
  // The link that is awaited, if it has come.
  ManualLink* TakeAwaited(uint32_t own);
  bool awaits() const { return awaits_.load(std::memory_order_relaxed); }

  // No link is awaited any more.
  void StopWaiting() { awaits_ = false; }
  // Ends all calls of the link to the queue pair.
  void DropLink() { link_.reset(); }

 private:
  SoftDevice& device_;
  std::unique_ptr<ManualLink> link_;  // Null without one.
  ManualPeer peer_;                   // Whose link is awaited.
  // The peer is to make the link; see QueuePairDirectory.
  std::atomic<bool> awaits_{false};
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CONNECTED_MANUAL_CONNECTION_H_
