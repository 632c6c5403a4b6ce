#include "transport/soft/device/port_events.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include "transport/soft/base/limits.h"
#include "transport/soft/device/context.h"

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

void PortEvents::Add(EventQueue* context_events) {
  const base::MutexLock lock(mutex_);
  contexts_.try_emplace(context_events);
}

void PortEvents::Remove(EventQueue* context_events) {
  const base::MutexLock lock(mutex_);
  contexts_.erase(context_events);
}

void PortEvents::OnReader() {
  const base::MutexLock lock(mutex_);
  if (read_ || engine_.Start() != 0) return;
  read_ = true;
  // The socket first, so that no change is missed between it and the table.
  socket_ = OpenHostSocket();
  if (socket_.get() < 0) return;
  gids_.Refresh();
  gids_seen_ = Gids();
  engine_.WatchWhenPossible(socket_.get(), [this] { OnHostChanged(); });
}

void PortEvents::Raise(ibv_event_type type, uint8_t port) {
  const base::MutexLock lock(mutex_);
  for (auto& [events, source] : contexts_) {
    events->Raise({&source, reinterpret_cast<void*>(uintptr_t{port}), type});
  }
}

// The messages only say that something has changed; the table is compared to
// find out whether it is a GID.
void PortEvents::OnHostChanged() {
  std::array<std::byte, 8192> messages;
  while (recv(socket_.get(), messages.data(), messages.size(), 0) > 0) {
  }
  gids_.Refresh();
  CompareGids();
}

void PortEvents::CompareGids() {
  std::vector<ibv_gid> now = Gids();
  {
    const base::MutexLock lock(mutex_);
    if (Same(now, gids_seen_)) return;
    gids_seen_ = std::move(now);
  }
  for (uint8_t port = 1; port <= kPorts; ++port) {
    Raise(IBV_EVENT_GID_CHANGE, port);
  }
}

std::vector<ibv_gid> PortEvents::Gids() const {
  std::vector<ibv_gid> gids;
  for (int index = 0; index < GidTable::kEntries; ++index) {
    gids.push_back(gids_.At(index).value_or(ibv_gid_entry{}).gid);
  }
  return gids;
}

}  // namespace verbena::soft
