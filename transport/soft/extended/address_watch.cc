#include "transport/soft/extended/address_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include "transport/soft/base/limits.h"
#include "transport/soft/device/soft_device.h"

namespace verbena::soft {
namespace {

// A socket that is readable when an address or an interface has changed.
base::UniqueFd OpenHostSocket() {
  base::UniqueFd socket(::socket(
      AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  sockaddr_nl address = {};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (socket.get() < 0 ||
      bind(socket.get(), reinterpret_cast<sockaddr*>(&address),
           sizeof(address)) != 0) {
    return base::UniqueFd();
  }
  return socket;
}

bool Same(const std::vector<ibv_gid>& a, const std::vector<ibv_gid>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(ibv_gid)) == 0;
}

}  // namespace

AddressWatch& AddressWatch::Get() {
  static auto* const watch = [] {
    SoftDevice& device = SoftDevice::Get();
    return new AddressWatch(device.engine(), device.gids(),
                            device.port_events());
  }();
  return *watch;
}

void AddressWatch::Start() {
  const base::MutexLock lock(mutex_);
  if (started_ || engine_.Start() != 0) return;
  started_ = true;
  // The socket first, so that no change is missed between it and the table.
  socket_ = OpenHostSocket();
  if (socket_.get() < 0) return;
  gids_.Refresh();
  gids_seen_ = Gids();
  engine_.WatchWhenPossible(socket_.get(), [this] { OnHostChanged(); });
}

// The messages only say that something has changed; the table is compared to
// find out whether it is a GID.
void AddressWatch::OnHostChanged() {
  std::array<std::byte, 8192> messages;
  while (recv(socket_.get(), messages.data(), messages.size(), 0) > 0) {
  }
  gids_.Refresh();
  CompareGids();
}

void AddressWatch::CompareGids() {
  std::vector<ibv_gid> now = Gids();
  {
    const base::MutexLock lock(mutex_);
    // Only a change of the table is an event.
    if (Same(now, gids_seen_)) return;
    gids_seen_ = std::move(now);
  }
  for (uint8_t port = 1; port <= kPorts; ++port) {
    events_.Raise(IBV_EVENT_GID_CHANGE, port);
  }
}

std::vector<ibv_gid> AddressWatch::Gids() const {
  std::vector<ibv_gid> gids;
  for (int index = 0; index < GidTable::kEntries; ++index) {
    gids.push_back(gids_.At(index).value_or(ibv_gid_entry{}).gid);
  }
  return gids;
}

}  // namespace verbena::soft
