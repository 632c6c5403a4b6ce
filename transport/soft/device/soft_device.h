// The software RDMA device of this process: its ports, and any number of
// contexts.

#ifndef VERBENA_TRANSPORT_SOFT_DEVICE_SOFT_DEVICE_H_
#define VERBENA_TRANSPORT_SOFT_DEVICE_SOFT_DEVICE_H_

#include <infiniband/verbs.h>
#include <sys/types.h>
#include <unistd.h>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/soft/address/gid_table.h"
#include "transport/soft/address/port_states.h"
#include "transport/soft/base/clock.h"
#include "transport/soft/base/engine.h"
#include "transport/soft/base/peer_users.h"
#include "transport/soft/device/port_events.h"
#include "transport/soft/device/queue_pair_directory.h"
#include "transport/soft/memory/memory_table.h"
#include "transport/soft/memory/memory_windows.h"
#include "transport/soft/remote/network.h"

namespace verbena::soft {

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

  // Like Get(), but the engine of the device has a manual clock and no thread.
  // Aborts when the device exists already and is no simulated one.
  static SoftDevice& GetSimulated();

  explicit SoftDevice(Clock::Kind clock);
  SoftDevice(const SoftDevice&) = delete;
  SoftDevice& operator=(const SoftDevice&) = delete;

  ibv_device* verbs_device() { return &device_; }
  Engine& engine() { return engine_; }
  MemoryTable& memory() { return memory_; }
  MemoryWindows& windows() { return windows_; }

  // The addresses of the host, which every port has.
  GidTable& gids() { return gids_; }
  PortEvents& port_events() { return port_events_; }
  const PortStates& port_states() const { return port_states_; }
  // Takes a port down or up, raises the event of that, and has all queue pairs
  // look at their paths. Each process has ports of its own. Events come in the
  // order of the changes.
  // REQUIRES: IsPort(port).
  void SetPortState(uint8_t port, PortState state)
      ABSL_LOCKS_EXCLUDED(set_port_mutex_);

  // The users whose processes it talks to on this host.
  const PeerUsers& peer_users() const { return peer_users_; }
  // The way to other hosts.
  Network& network() { return network_; }
  // The queue pairs by number.
  QueuePairDirectory& queue_pairs() { return queue_pairs_; }

  // Whether this process was forked from one that had begun to use the device,
  // which it cannot use then; says so to whoever runs it.
  bool IsLostByFork() ABSL_LOCKS_EXCLUDED(warning_mutex_);

  // Waits until every copy that is under way has finished: afterwards nobody
  // touches a region that was removed before the call.
  void WaitForDataPath();

  // Acknowledges what has arrived, as a NIC does without its process. Called
  // when the process exits, since its queue pairs may never be destroyed. Takes
  // no longer than two seconds.
  void AcknowledgeAll();

  // Ends the threads, when the process has no more use for the device: tools
  // that look for leaks take what belongs to a thread for one. Takes no longer
  // than two seconds.
  void EndThreads();

 private:
  static SoftDevice& TheOne(Clock::Kind clock);

  ibv_device device_ = {};
  Engine engine_;
  MemoryTable memory_;
  MemoryWindows windows_{memory_};
  GidTable gids_;
  base::Mutex set_port_mutex_;  // Held by SetPortState().
  PortStates port_states_;
  PortEvents port_events_;
  const PeerUsers peer_users_ = PeerUsers::FromEnvironment();
  Network network_;
  QueuePairDirectory queue_pairs_;
  base::Mutex warning_mutex_;
  base::RareWarning fork_warning_ ABSL_GUARDED_BY(warning_mutex_);
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DEVICE_SOFT_DEVICE_H_
