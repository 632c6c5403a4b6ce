// Event channels and devices that a client's connections share.

#ifndef VERBENA_TRANSPORT_CLIENT_CLIENT_DEVICES_H_
#define VERBENA_TRANSPORT_CLIENT_CLIENT_DEVICES_H_

#include <infiniband/verbs.h>

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "transport/device/cm_watcher.h"
#include "transport/device/poller_device.h"
#include "transport/device/removal_watch.h"
#include "transport/polling/poller.h"
#include "transport/verbs/provider.h"

namespace verbena::transport {

// Owns an event channel of each provider, and completion queues of each device,
// all of which one poller polls. The Providers and the Poller must outlive it.
// Poller thread only.
class ClientDevices {
 public:
  explicit ClientDevices(Poller& poller) : poller_(poller) {}
  ClientDevices(const ClientDevices&) = delete;
  ClientDevices& operator=(const ClientDevices&) = delete;
  // REQUIRES: no connection uses them any more.
  ~ClientDevices();

  Poller& poller() { return poller_; }

  // Returns the watcher of the provider's event channel.
  absl::StatusOr<CmWatcher*> WatcherFor(const Provider& provider);
  // Returns the device of `id`, with room for one more connection.
  // REQUIRES: the id is one of WatcherFor(provider), and has its device.
  absl::StatusOr<PollerDevice*> DeviceFor(const Provider& provider,
                                          const CmId& id);
  // Destroys the devices that have failed or were removed, and that no
  // connection uses any more.
  void DropFinished();

 private:
  struct Device {
    ibv_context* context;
    std::unique_ptr<PollerDevice> device;
    std::unique_ptr<RemovalWatch> removal;  // Null if it cannot be removed.
  };

  Poller& poller_;
  absl::flat_hash_map<const Provider*, std::unique_ptr<CmWatcher>> watchers_;
  std::vector<Device> devices_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_CLIENT_CLIENT_DEVICES_H_
