#include "tools/rpc_bench/local_devices.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
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

// The addresses of the network interfaces that are up, IPv4 first; the loopback
// interface and link-local addresses belong to no device.
std::vector<SocketAddress> HostAddresses() {
  std::vector<SocketAddress> found;
  ifaddrs* addresses = nullptr;
  if (getifaddrs(&addresses) != 0) return found;
  for (const ifaddrs* each = addresses; each; each = each->ifa_next) {
    const SocketAddress address = SocketAddress::FromSockaddr(each->ifa_addr);
    if ((each->ifa_flags & IFF_UP) != 0 &&
        (each->ifa_flags & IFF_LOOPBACK) == 0 && !address.empty() &&
        !absl::StrContains(address.HostString(), '%')) {
      found.push_back(address);
    }
  }
  freeifaddrs(addresses);
  std::stable_partition(
      found.begin(), found.end(),
      [](const SocketAddress& each) { return each.family() == AF_INET; });
  return found;
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
                       : HostAddresses();
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
