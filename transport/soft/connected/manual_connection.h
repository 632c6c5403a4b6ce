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

// The link of a queue pair that was connected manually, or the peer whose link
// it waits for. The device outlives it. Not thread-safe, except awaits():
// protected by the mutex under which the queue pair is modified.
class ManualConnection {
 public:
  explicit ManualConnection(SoftDevice& device) : device_(device) {}

  // From now on Connect() waits for no process that does not read.
  void StopWaitingForReaders() { may_wait_ = false; }

  // Makes or finds the link of queue pair `own` to the one that `attributes`
  // name. Returns null when it is for the peer to make the link, which is
  // awaited from now on. A number that nobody has is as legal as on a NIC:
  // requests to it end with their retries exceeded.
  ManualLink* Connect(uint32_t own, const ibv_qp_attr& attributes);
  // Returns the link that is awaited, if it has come, else null. It counts as
  // awaited until StopWaiting(), which is called when the queue pair uses it:
  // what is posted before that is not without a link for good.
  ManualLink* TakeAwaited(uint32_t own);
  bool awaits() const { return awaits_.load(std::memory_order_relaxed); }

  // No link is awaited any more.
  void StopWaiting() { awaits_ = false; }
  // Destroys the link, if there is one: afterwards it does not call the queue
  // pair any more.
  void DropLink() { link_.reset(); }

 private:
  SoftDevice& device_;
  bool may_wait_ = true;
  std::unique_ptr<ManualLink> link_;  // Null without one.
  ManualPeer peer_;                   // The peer whose link is awaited.
  // The peer is to make the link; see QueuePairDirectory.
  std::atomic<bool> awaits_{false};
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CONNECTED_MANUAL_CONNECTION_H_
