#include "transport/soft/datagram/multicast_groups.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/base/socket_address.h"
#include "transport/soft/address/gid_table.h"
#include "transport/soft/base/datagram_socket.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/datagram/global_route.h"
#include "transport/soft/datagram/udp_socket.h"

namespace verbena::soft {
namespace {

// Datagrams taken in one callback, so that others have their turn.
constexpr int kReadBatch = 64;

std::array<uint8_t, 16> KeyOf(const ibv_gid& gid) {
  std::array<uint8_t, 16> key;
  std::copy(std::begin(gid.raw), std::end(gid.raw), key.begin());
  return key;
}

ibv_gid GidOfKey(const std::array<uint8_t, 16>& key) {
  ibv_gid gid;
  std::copy(key.begin(), key.end(), gid.raw);
  return gid;
}

}  // namespace

MulticastGroups::~MulticastGroups() {
  for (const auto& [key, group] : groups_) {
    if (group.socket.valid()) engine_.Unwatch(group.socket.get());
  }
}

// Opens the group's socket for its first member, joins on the interfaces, and
// notes the member. If that fails, a group without members is closed again.
int MulticastGroups::Attach(uint32_t number, const ibv_gid& gid,
                            const std::set<uint32_t>& interfaces) {
  if (!IsMulticastGid(gid)) return EINVAL;
  if (port_ == 0) return EOPNOTSUPP;
  const Key key = KeyOf(gid);
  base::UniqueFd unused;
  int error = 0;
  {
    const base::MutexLock lock(mutex_);
    if (groups_.size() >= kGroupsMax && !groups_.contains(key)) return ENOMEM;
    Group& group = groups_[key];
    if (group.members.size() >= kGroupMembersMax &&
        !group.members.contains(number)) {
      return ENOMEM;
    }
    if (!group.socket.valid()) error = Open(key, group);
    if (error == 0) error = Join(key, group, interfaces);
    if (error == 0) {
      Member& member = group.members[number];
      ++member.attached;
      member.interfaces.insert(interfaces.begin(), interfaces.end());
    } else if (group.members.empty()) {
      unused = Close(key);
    }
  }
  Unwatch(unused);
  return error;
}

base::UniqueFd MulticastGroups::Close(const Key& key) {
  const auto found = groups_.find(key);
  base::UniqueFd socket = std::move(found->second.socket);
  groups_.erase(found);
  return socket;
}

void MulticastGroups::Unwatch(const base::UniqueFd& socket) {
  if (socket.valid()) engine_.Unwatch(socket.get());
}

int MulticastGroups::Open(const Key& key, Group& group) {
  if (!sender_.valid()) {
    sender_ = base::UniqueFd(
        ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!sender_.valid()) return errno;
  }
  const base::SocketAddress address =
      AddressOf(GroupOnTheWire(GidOfKey(key)), port_);
  if (const int error = OpenUdpReceiver(address, group.socket); error != 0) {
    return error;
  }
  // The callback looks the group up by its key, because the group may be gone
  // when it runs.
  const int error = engine_.Watch(group.socket.get(), [this, key] {
    const base::MutexLock lock(mutex_);
    OnReadable(key);
  });
  if (error != 0) group.socket.Reset();
  return error;
}

// Joins on those interfaces on which the kernel allows it. A single one is
// enough.
int MulticastGroups::Join(const Key& key, Group& group,
                          const std::set<uint32_t>& interfaces) {
  int error = EADDRNOTAVAIL;  // If `interfaces` is empty.
  bool joined = false;
  for (const uint32_t interface : interfaces) {
    // The kernel lets a socket join only once on an interface.
    if (group.interfaces.contains(interface)) {
      joined = true;
      continue;
    }
    error = JoinGroup(group.socket.get(),
                      AddressOf(GroupOnTheWire(GidOfKey(key))), interface);
    if (error != 0) continue;
    group.interfaces.insert(interface);
    joined = true;
  }
  return joined ? 0 : error;
}

int MulticastGroups::Detach(uint32_t number, const ibv_gid& gid) {
  const Key key = KeyOf(gid);
  base::UniqueFd socket;
  {
    const base::MutexLock lock(mutex_);
    const auto found = groups_.find(key);
    if (found == groups_.end()) return EINVAL;
    Group& group = found->second;
    const auto member = group.members.find(number);
    if (member == group.members.end()) return EINVAL;
    if (--member->second.attached > 0) return 0;
    group.members.erase(member);
    // An interface that only this member wanted stays joined until the last
    // member has left: what comes by it finds no member.
    if (!group.members.empty()) return 0;
    socket = Close(key);
  }
  Unwatch(socket);
  return 0;
}

// Hands each datagram of the group to the members that have joined on the
// interface it came by.
void MulticastGroups::OnReadable(const Key& key) {
  const auto found = groups_.find(key);
  if (found == groups_.end()) return;
  const Group& group = found->second;
  for (int i = 0; i < kReadBatch; ++i) {
    UdpArrival arrival;
    const ssize_t length = ReceiveUdp(group.socket.get(), datagram_.data(),
                                      datagram_.size(), arrival);
    if (length < 0) return;
    DatagramHeader header;
    if (!ReadDatagramHeader(datagram_.data(), static_cast<size_t>(length),
                            header) ||
        header.destination_qp != kMulticastQueuePair ||
        KeyOf(header.destination) != key) {
      continue;  // Groups that differ in their scope alone may share a wire.
    }
    // The addresses of the packet replace those that the sender wrote.
    header.source = GidOf(arrival.source);
    header.destination = GidOfKey(key);
    const DatagramHeader wire = ToWire(header);
    std::memcpy(datagram_.data(), &wire, sizeof(wire));
    Deliver(group, arrival.interface_index, static_cast<size_t>(length));
  }
}

// A member without room misses the datagram, so that it does not hold up
// others.
void MulticastGroups::Deliver(const Group& group, uint32_t interface_index,
                              size_t length) {
  const iovec part = {datagram_.data(), length};
  for (const auto& [number, member] : group.members) {
    if (!member.interfaces.contains(interface_index)) continue;
    SendToQueuePair(sender_.get(), number, &part, 1);
  }
}

}  // namespace verbena::soft
