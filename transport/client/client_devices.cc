#include "transport/client/client_devices.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "transport/base/status_macros.h"

namespace verbena::transport {
namespace {

// How many connections the queues have room for that are made for a device
// first, next, and from then on: few connections cost little, and each poll
// looks at few queues. More would not fit the completion queues of small
// devices.
constexpr uint32_t kDeviceSizes[] = {4, 32, 256};

}  // namespace

// The poller forgets each before it is destroyed, because it would poll or
// tick it.
ClientDevices::~ClientDevices() {
  for (const Device& device : devices_) poller_.Remove(device.device.get());
  devices_.clear();
  for (const auto& [provider, watcher] : watchers_) {
    poller_.Remove(watcher.get());
  }
}

absl::StatusOr<CmWatcher*> ClientDevices::WatcherFor(const Provider& provider) {
  const auto found = watchers_.find(&provider);
  if (found != watchers_.end()) return found->second.get();
  ASSIGN_OR_RETURN(EventChannel channel, EventChannel::Create(provider));
  auto watcher = std::make_unique<CmWatcher>(std::move(channel));
  CmWatcher* const raw = watcher.get();
  poller_.Add(raw);
  watchers_[&provider] = std::move(watcher);
  return raw;
}

// Takes the first device object with room. If there is none, makes another,
// whose size depends on how many are full.
absl::StatusOr<PollerDevice*> ClientDevices::DeviceFor(const Provider& provider,
                                                       const CmId& id) {
  ibv_context* const context = id.context();
  size_t full = 0;
  for (const Device& device : devices_) {
    if (device.context != context) continue;
    if (device.device->has_room()) return device.device.get();
    ++full;
  }
  ASSIGN_OR_RETURN(CmWatcher * watcher, WatcherFor(provider));
  PollerDevice::Options options;
  options.max_connections =
      kDeviceSizes[std::min(full, std::size(kDeviceSizes) - 1)];
  ASSIGN_OR_RETURN(std::unique_ptr<PollerDevice> device,
                   PollerDevice::Create(provider, context, options));
  PollerDevice* const raw = device.get();
  poller_.Add(raw);
  devices_.push_back({context, std::move(device),
                      RemovalWatch::Create(*watcher, *raw, id.LocalAddress())});
  return raw;
}

void ClientDevices::DropFinished() {
  std::erase_if(devices_, [this](const Device& each) {
    if (!each.device->finished()) return false;
    poller_.Remove(each.device.get());
    return true;
  });
}

}  // namespace verbena::transport
