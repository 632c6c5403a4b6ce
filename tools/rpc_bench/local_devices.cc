#include "tools/rpc_bench/local_devices.h"

#include <sys/socket.h>

#include <vector>

#include "absl/status/statusor.h"
#include "transport/base/local_addresses.h"
#include "transport/base/socket_address.h"
#include "transport/device.h"
#include "transport/verbs/cm_id.h"
#include "transport/verbs/event_channel.h"

namespace verbena::bench {
namespace {

using base::SocketAddress;

bool IsSoft(const transport::Provider& provider) {
  return provider.name == transport::kSoftDevice;
}

}  // namespace

// Binds an id to each address of the host, which tells the device that has it.
std::map<std::string, LocalDevice> LocalDevices(
    const transport::Provider& provider) {
  std::map<std::string, LocalDevice> devices;
  const absl::StatusOr<transport::EventChannel> channel =
      transport::EventChannel::Create(provider);
  if (!channel.ok()) return devices;
  const std::vector<SocketAddress> addresses =
      IsSoft(provider) ? std::vector{SocketAddress::Loopback(AF_INET, 0)}
                       : base::InterfaceAddresses();
  for (const SocketAddress& address : addresses) {
    absl::StatusOr<transport::CmId> id =
        transport::CmId::Create(provider, *channel);
    // Binding asks the connection manager whose address it is.
    if (!id.ok() || !id->BindAddr(address).ok()) continue;
    ibv_context* const context = id->context();
    // The address belongs to no device of the provider.
    if (context == nullptr) continue;
    const std::string name = provider.verbs.get_device_name(context->device);
    // The first address of a device stays, which is of IPv4 if it has one.
    devices.emplace(name, LocalDevice{name, address.ToString(), context});
  }
  return devices;
}

}  // namespace verbena::bench
