// Hears when a device is removed from the machine.

#ifndef VERBENA_TRANSPORT_DEVICE_REMOVAL_WATCH_H_
#define VERBENA_TRANSPORT_DEVICE_REMOVAL_WATCH_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "transport/base/socket_address.h"
#include "transport/device/cm_watcher.h"
#include "transport/device/poller_device.h"
#include "transport/verbs/cm_event.h"
#include "transport/verbs/cm_id.h"

namespace verbena::transport {

// Holds an id that is bound to the device, and retires the device when the id
// is told of its removal. Without it, a device that has no connections would
// hear nothing, and the kernel's software devices could not be removed as long
// as it has queues. The watcher and the device must outlive it. Poller thread
// only.
class RemovalWatch final : private CmEventHandler {
 public:
  // `address` is one of the device. Null if its provider's devices are never
  // removed, or if the id cannot be bound: then only connections hear of it.
  static std::unique_ptr<RemovalWatch> Create(CmWatcher& watcher,
                                              PollerDevice& device,
                                              base::SocketAddress address) {
    if (!device.provider().removes_devices) return nullptr;
    absl::StatusOr<CmId> id =
        CmId::Create(device.provider(), watcher.channel());
    address.set_port(0);
    if (!id.ok() || !id->BindAddr(address).ok()) return nullptr;
    return std::unique_ptr<RemovalWatch>(
        new RemovalWatch(watcher, device, *std::move(id)));
  }
  RemovalWatch(const RemovalWatch&) = delete;
  RemovalWatch& operator=(const RemovalWatch&) = delete;
  ~RemovalWatch() { watcher_.Unwatch(id_); }

 private:
  RemovalWatch(CmWatcher& watcher, PollerDevice& device, CmId id)
      : watcher_(watcher), device_(device), id_(std::move(id)) {
    watcher_.Watch(id_, this);
  }
  void OnCmEvent(const CmEvent& event) override {
    if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) device_.Retire();
  }

  CmWatcher& watcher_;
  PollerDevice& device_;
  CmId id_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_DEVICE_REMOVAL_WATCH_H_
