// The event that tells of a change of the host's addresses.

#ifndef VERBENA_TRANSPORT_SOFT_EXTENDED_ADDRESS_WATCH_H_
#define VERBENA_TRANSPORT_SOFT_EXTENDED_ADDRESS_WATCH_H_

#include <infiniband/verbs.h>

#include <vector>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/address/gid_table.h"
#include "transport/soft/base/engine.h"
#include "transport/soft/device/port_events.h"

namespace verbena::soft {

// Tells all contexts when the addresses of the host have changed
// (IBV_EVENT_GID_CHANGE). It asks the kernel for that only from Start() on, so
// a process that reads no events has no socket for it.
//
// Thread-safe. The arguments of the constructor outlive it, and it lives as
// long as the process.
class AddressWatch {
 public:
  // The watch of SoftDevice::Get().
  static AddressWatch& Get();

  AddressWatch(Engine& engine, GidTable& gids, PortEvents& events)
      : engine_(engine), gids_(gids), events_(events) {}
  AddressWatch(const AddressWatch&) = delete;
  AddressWatch& operator=(const AddressWatch&) = delete;

  // From now on addresses are watched, unless the kernel has no netlink socket
  // for us. If the engine's thread cannot be started, the next call tries
  // again.
  void Start();

  // Raises IBV_EVENT_GID_CHANGE if the table is not what it was when this was
  // last called, or when watching began.
  void CompareGids();

 private:
  void OnHostChanged();
  std::vector<ibv_gid> Gids() const;

  Engine& engine_;
  GidTable& gids_;
  PortEvents& events_;

  base::Mutex mutex_;
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  base::UniqueFd socket_;  // Constant once started.
  std::vector<ibv_gid> gids_seen_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_EXTENDED_ADDRESS_WATCH_H_
