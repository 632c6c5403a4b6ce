#include "tools/rpc_bench/local_device.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>

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

constexpr char kLoopback[] = "127.0.0.1";

bool IsSoft(const transport::Provider& provider) {
  return provider.name == transport::kSoftDevice;
}

// The addresses of the network interfaces that are up, IPv4 first; the loopback
// interface and link-local addresses belong to no device.
std::vector<std::string> HostAddresses() {
  std::vector<std::string> found;
  ifaddrs* addresses = nullptr;
  if (getifaddrs(&addresses) != 0) return found;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* each = addresses; each; each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != family ||
          (each->ifa_flags & IFF_UP) == 0 ||
          (each->ifa_flags & IFF_LOOPBACK) != 0) {
        continue;
      }
      char text[NI_MAXHOST];
      const socklen_t length =
          family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      if (getnameinfo(each->ifa_addr, length, text, sizeof(text), nullptr, 0,
                      NI_NUMERICHOST) == 0 &&
          !absl::StrContains(text, '%')) {
        found.push_back(family == AF_INET ? text
                                          : absl::StrCat("[", text, "]"));
      }
    }
  }
  freeifaddrs(addresses);
  return found;
}

// What `address` is bound to; null if to no device of `provider`.
ibv_context* Bind(const transport::Provider& provider,
                  const std::string& address) {
  absl::StatusOr<transport::EventChannel> channel =
      transport::EventChannel::Create(provider);
  if (!channel.ok()) return nullptr;
  absl::StatusOr<transport::CmId> id =
      transport::CmId::Create(provider, *channel);
  const absl::StatusOr<base::SocketAddress> parsed =
      base::SocketAddress::ParseNumeric(absl::StrCat(address, ":0"));
  if (!id.ok() || !parsed.ok() || !id->BindAddr(*parsed).ok()) return nullptr;
  return id->context();
}

}  // namespace

std::vector<LocalDevice> LocalDevices(const transport::Provider& provider) {
  std::map<std::string, LocalDevice> devices;
  const std::vector<std::string> addresses =
      IsSoft(provider) ? std::vector<std::string>{kLoopback} : HostAddresses();
  for (const std::string& address : addresses) {
    ibv_context* const context = Bind(provider, address);
    if (context == nullptr) continue;
    const std::string name = provider.verbs.get_device_name(context->device);
    devices.emplace(name, LocalDevice{name, address, context});
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
      return LocalDevice{std::string(transport::kSoftDevice), kLoopback};
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
