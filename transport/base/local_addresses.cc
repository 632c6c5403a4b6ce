#include "transport/base/local_addresses.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "transport/base/unique_fd.h"

namespace verbena::base {

std::vector<SocketAddress> InterfaceAddresses() {
  std::vector<SocketAddress> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list,
                                                                 ::freeifaddrs);
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    const SocketAddress address = SocketAddress::FromSockaddr(each->ifa_addr);
    if ((each->ifa_flags & IFF_UP) != 0 &&
        (each->ifa_flags & IFF_LOOPBACK) == 0 && !address.empty() &&
        !absl::StrContains(address.HostString(), '%')) {
      found.push_back(address);
    }
  }
  std::stable_partition(
      found.begin(), found.end(),
      [](const SocketAddress& each) { return each.family() == AF_INET; });
  return found;
}

// Connecting a socket for datagrams sends nothing: it only looks up the route.
SocketAddress LocalAddressTo(const SocketAddress& peer) {
  const UniqueFd socket(::socket(peer.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() ||
      ::connect(socket.get(), peer.get(), peer.size()) != 0) {
    return SocketAddress();
  }
  sockaddr_storage name = {};
  socklen_t length = sizeof(name);
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&name),
                    &length) != 0) {
    return SocketAddress();
  }
  SocketAddress local =
      SocketAddress::FromSockaddr(reinterpret_cast<const sockaddr*>(&name));
  if (!local.empty()) local.set_port(0);
  return local;
}

}  // namespace verbena::base
