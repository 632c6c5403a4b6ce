#include "tools/rpc_bench/local_device.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tools/rpc_bench/verbs_count.h"
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

// What `address` is bound to; null if to no device of `provider`.
ibv_context* Bind(const transport::Provider& provider,
                  const SocketAddress& address) {
  absl::StatusOr<transport::EventChannel> channel =
      transport::EventChannel::Create(provider);
  if (!channel.ok()) return nullptr;
  absl::StatusOr<transport::CmId> id =
      transport::CmId::Create(provider, *channel);
  if (!id.ok() || !id->BindAddr(address).ok()) return nullptr;
  return id->context();
}

}  // namespace

std::vector<LocalDevice> LocalDevices(const transport::Provider& provider) {
  std::map<std::string, LocalDevice> devices;
  const std::vector<SocketAddress> addresses =
      IsSoft(provider) ? std::vector{SocketAddress::Loopback(AF_INET, 0)}
                       : HostAddresses();
  for (const SocketAddress& address : addresses) {
    ibv_context* const context = Bind(provider, address);
    if (context == nullptr) continue;
    const std::string name = provider.verbs.get_device_name(context->device);
    devices.emplace(name, LocalDevice{name, address.ToString(), context});
  }
  std::vector<LocalDevice> sorted;
  for (auto& [name, device] : devices) sorted.push_back(std::move(device));
  return sorted;
}

absl::StatusOr<LocalDevice> ChooseLocalDevice(absl::string_view wanted) {
  std::string names;
  for (const transport::Provider* provider :
       transport::ListenProviders(wanted)) {
    // The software device is not touched yet: it has a thread, which shall run
    // where this one is pinned to.
    if (IsSoft(*provider)) {
      return LocalDevice{std::string(transport::kSoftDevice),
                         SocketAddress::Loopback(AF_INET, 0).ToString()};
    }
    for (const LocalDevice& device : LocalDevices(*provider)) {
      if (wanted.empty() || wanted == device.name) return device;
      absl::StrAppend(&names, device.name, ", ");
    }
  }
  return absl::NotFoundError(absl::StrCat(
      "no device \"", wanted,
      "\" on this host that has an address; there are: ", names,
      transport::kSoftDevice, "; see `rdma link` and `ip address`"));
}

void CountVerbsOfDevices(absl::string_view wanted) {
  for (const transport::Provider* provider :
       transport::ListenProviders(wanted)) {
    for (const LocalDevice& device : LocalDevices(*provider)) {
      CountVerbs(device.context);
    }
  }
}

}  // namespace verbena::bench
