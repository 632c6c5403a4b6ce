#include "transport/soft/address/gid_table.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "transport/soft/address/mapped_gid.h"

namespace verbena::soft {
namespace {

bool IsEmpty(const ibv_gid& gid) { return SameGid(gid, ibv_gid{}); }

bool IsLinkLocal(const ibv_gid& gid) {
  return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
}

// How unlikely it is that other hosts reach this address, as a rank: 0 is the
// most likely.
int Remoteness(const HostAddress& host) {
  if (host.address.IsLoopback()) {
    return host.address.family() == AF_INET ? 6 : 7;
  }
  const int kind = host.address.family() == AF_INET    ? 0
                   : !IsLinkLocal(GidOf(host.address)) ? 1
                                                       : 2;
  return host.running ? kind : kind + 3;
}

// The GID decides last, so that the order does not depend on that of the
// kernel's list.
bool ComesBefore(const HostAddress& a, const HostAddress& b) {
  const int remoteness_a = Remoteness(a);
  const int remoteness_b = Remoteness(b);
  const ibv_gid gid_a = GidOf(a.address);
  const ibv_gid gid_b = GidOf(b.address);
  const int order = std::memcmp(gid_a.raw, gid_b.raw, sizeof(gid_a.raw));
  return std::tie(remoteness_a, a.interface_index) <
             std::tie(remoteness_b, b.interface_index) ||
         (std::tie(remoteness_a, a.interface_index) ==
              std::tie(remoteness_b, b.interface_index) &&
          order < 0);
}

}  // namespace

ibv_gid GidOf(const base::SocketAddress& address) {
  ibv_gid gid = {};
  if (address.family() == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address.get());
    gid = MappedGid(v4->sin_addr.s_addr);
  } else if (address.family() == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address.get());
    std::memcpy(gid.raw, &v6->sin6_addr, sizeof(gid.raw));
  }
  return gid;
}

base::SocketAddress AddressOf(const ibv_gid& gid, uint16_t port,
                              uint32_t interface_index) {
  if (IsEmpty(gid)) return base::SocketAddress();
  if (IsIpv4Gid(gid)) {
    sockaddr_in v4 = {};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    v4.sin_addr.s_addr = Ipv4Of(gid);
    return base::SocketAddress::FromSockaddr(
        reinterpret_cast<const sockaddr*>(&v4));
  }
  sockaddr_in6 v6 = {};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  std::memcpy(&v6.sin6_addr, gid.raw, sizeof(v6.sin6_addr));
  if (IsLinkLocal(gid)) v6.sin6_scope_id = interface_index;
  return base::SocketAddress::FromSockaddr(
      reinterpret_cast<const sockaddr*>(&v6));
}

bool IsMulticastGid(const ibv_gid& gid) {
  return IsIpv4Gid(gid) ? IN_MULTICAST(ntohl(Ipv4Of(gid))) : gid.raw[0] == 0xff;
}

bool SameGid(const ibv_gid& a, const ibv_gid& b) {
  return std::memcmp(a.raw, b.raw, sizeof(a.raw)) == 0;
}

// Both calls of the C library open a socket, which a process that is out of
// descriptors cannot.
std::optional<std::vector<HostAddress>> ReadHostAddresses() {
  std::vector<HostAddress> addresses;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list,
                                                                 ::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if ((entry->ifa_flags & IFF_UP) == 0) continue;
    HostAddress host;
    host.address = base::SocketAddress::FromSockaddr(entry->ifa_addr);
    if (host.address.empty()) continue;
    host.interface_index = ::if_nametoindex(entry->ifa_name);
    if (host.interface_index == 0) {
      if (errno == ENODEV) continue;  // The interface has gone meanwhile.
      return std::nullopt;
    }
    host.running = (entry->ifa_flags & IFF_RUNNING) != 0;
    addresses.push_back(host);
  }
  return addresses;
}

void GidTable::Refresh() {
  const std::optional<std::vector<HostAddress>> addresses = ReadHostAddresses();
  if (addresses.has_value()) Update(*addresses);
}

// Drops the entries whose addresses have gone, and then gives each new address
// the first empty entry. The others keep their index.
void GidTable::Update(const std::vector<HostAddress>& addresses) {
  std::vector<HostAddress> wanted = addresses;
  std::sort(wanted.begin(), wanted.end(), ComesBefore);
  const base::MutexLock lock(mutex_);
  const auto is = [](const Entry& entry, const HostAddress& host) {
    return entry.interface_index == host.interface_index &&
           SameGid(entry.gid, GidOf(host.address));
  };
  // Addresses that have gone make room for new ones.
  for (Entry& entry : entries_) {
    const bool kept =
        std::any_of(wanted.begin(), wanted.end(),
                    [&](const HostAddress& host) { return is(entry, host); });
    if (!kept) entry = Entry();
  }
  for (const HostAddress& host : wanted) {
    const bool known =
        std::any_of(entries_.begin(), entries_.end(),
                    [&](const Entry& entry) { return is(entry, host); });
    if (known) continue;
    auto place =
        std::find_if(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return IsEmpty(entry.gid); });
    if (place == entries_.end()) {
      // The addresses come in their order, so those that are left out are the
      // least likely to be reached.
      if (entries_.size() >= kEntries) return;
      place = entries_.emplace(place);
    }
    *place = Entry{GidOf(host.address), host.interface_index};
  }
}

std::optional<ibv_gid_entry> GidTable::At(int index) const {
  const base::MutexLock lock(mutex_);
  if (index < 0 || static_cast<size_t>(index) >= entries_.size() ||
      IsEmpty(entries_[index].gid)) {
    return std::nullopt;
  }
  ibv_gid_entry entry = {};
  entry.gid = entries_[index].gid;
  entry.gid_index = static_cast<uint32_t>(index);
  entry.gid_type = IBV_GID_TYPE_ROCE_V2;
  entry.ndev_ifindex = entries_[index].interface_index;
  return entry;
}

std::optional<int> GidTable::Find(const ibv_gid& gid) const {
  const base::MutexLock lock(mutex_);
  if (IsEmpty(gid)) return std::nullopt;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (SameGid(entries_[i].gid, gid)) return static_cast<int>(i);
  }
  return std::nullopt;
}

}  // namespace verbena::soft
