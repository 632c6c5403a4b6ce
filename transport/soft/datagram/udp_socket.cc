#include "transport/soft/datagram/udp_socket.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace verbena::soft {
namespace {

// Nobody slows a sender down, so a receiver needs room for what comes while its
// thread wakes up. The kernel lowers it to net.core.rmem_max.
constexpr int kReceiveBufferBytes = 4 << 20;

int SetOption(int socket, int level, int option, int value) {
  return ::setsockopt(socket, level, option, &value, sizeof(value)) == 0
             ? 0
             : errno;
}

int OpenUdp(int family, base::UniqueFd& socket) {
  socket = base::UniqueFd(
      ::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return socket.valid() ? 0 : errno;
}

// The ancillary data of one packet.
class Control {
 public:
  template <typename Value>
  void Add(int level, int type, const Value& value) {
    auto* header = reinterpret_cast<cmsghdr*>(bytes_ + length_);
    header->cmsg_level = level;
    header->cmsg_type = type;
    header->cmsg_len = CMSG_LEN(sizeof(value));
    std::memcpy(CMSG_DATA(header), &value, sizeof(value));
    length_ += CMSG_SPACE(sizeof(value));
  }
  void AttachTo(msghdr& message) {
    message.msg_control = bytes_;
    message.msg_controllen = length_;
  }

 private:
  // The longest: an IPv6 source address, a hop limit and a traffic class.
  alignas(cmsghdr) unsigned char bytes_[CMSG_SPACE(sizeof(in6_pktinfo)) +
                                        2 * CMSG_SPACE(sizeof(int))] = {};
  size_t length_ = 0;
};

// Tells the kernel, for this packet alone, the source address, the hop limit
// and the traffic class. All routes share one socket.
void FillControl(const DatagramRoute& route, Control& control) {
  // The kernel's routes tell the interface to a host. A group is on every
  // interface, so the sender names one.
  const uint32_t interface = route.multicast ? route.interface_index : 0;
  if (route.destination.family() == AF_INET) {
    in_pktinfo info = {};
    info.ipi_ifindex = static_cast<int>(interface);
    if (route.source.family() == AF_INET) {
      info.ipi_spec_dst =
          reinterpret_cast<const sockaddr_in*>(route.source.get())->sin_addr;
    }
    control.Add(IPPROTO_IP, IP_PKTINFO, info);
    if (route.hop_limit != 0) {
      control.Add(IPPROTO_IP, IP_TTL, int{route.hop_limit});
    }
    control.Add(IPPROTO_IP, IP_TOS, int{route.traffic_class});
    return;
  }
  in6_pktinfo info = {};
  info.ipi6_ifindex = interface;
  if (route.source.family() == AF_INET6) {
    info.ipi6_addr =
        reinterpret_cast<const sockaddr_in6*>(route.source.get())->sin6_addr;
  }
  control.Add(IPPROTO_IPV6, IPV6_PKTINFO, info);
  if (route.hop_limit != 0) {
    control.Add(IPPROTO_IPV6, IPV6_HOPLIMIT, int{route.hop_limit});
  }
  control.Add(IPPROTO_IPV6, IPV6_TCLASS, int{route.traffic_class});
}

// Reads what OpenUdpReceiver() has asked the kernel to add to each packet.
void NoteControl(msghdr& message, UdpArrival& arrival) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_PKTINFO) {
      in_pktinfo info;
      std::memcpy(&info, CMSG_DATA(header), sizeof(info));
      arrival.interface_index = static_cast<uint32_t>(info.ipi_ifindex);
      sockaddr_in name = {};
      name.sin_family = AF_INET;
      name.sin_addr = info.ipi_addr;
      arrival.destination = base::SocketAddress::FromSockaddr(
          reinterpret_cast<const sockaddr*>(&name));
    } else if (header->cmsg_level == IPPROTO_IPV6 &&
               header->cmsg_type == IPV6_PKTINFO) {
      in6_pktinfo info;
      std::memcpy(&info, CMSG_DATA(header), sizeof(info));
      arrival.interface_index = info.ipi6_ifindex;
      sockaddr_in6 name = {};
      name.sin6_family = AF_INET6;
      name.sin6_addr = info.ipi6_addr;
      arrival.destination = base::SocketAddress::FromSockaddr(
          reinterpret_cast<const sockaddr*>(&name));
    }
  }
}

}  // namespace

int OpenUdpSender(int family, base::UniqueFd& socket) {
  return OpenUdp(family, socket);
}

// Sets what must be set before bind(), since packets may come from then on.
int OpenUdpReceiver(const base::SocketAddress& address,
                    base::UniqueFd& socket) {
  const bool v4 = address.family() == AF_INET;
  const int level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
  base::UniqueFd opened;
  int error = OpenUdp(address.family(), opened);
  const int fd = opened.get();
  // Sockets of groups share the port with each other and with that of the host.
  // IPv4 has a socket of its own, so that of IPv6 leaves it alone.
  if (error == 0) error = SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (error == 0 && !v4) error = SetOption(fd, level, IPV6_V6ONLY, 1);
  if (error == 0) {
    // Otherwise it would receive for groups that other sockets have joined.
    error = SetOption(fd, level, v4 ? IP_MULTICAST_ALL : IPV6_MULTICAST_ALL, 0);
  }
  if (error == 0) {
    // With each packet come its destination and its interface.
    error = SetOption(fd, level, v4 ? IP_PKTINFO : IPV6_RECVPKTINFO, 1);
  }
  if (error != 0) return error;
  // The first needs a privilege. If both fail, there is only less room.
  if (SetOption(fd, SOL_SOCKET, SO_RCVBUFFORCE, kReceiveBufferBytes) != 0) {
    SetOption(fd, SOL_SOCKET, SO_RCVBUF, kReceiveBufferBytes);
  }
  if (::bind(fd, address.get(), address.size()) != 0) return errno;
  socket = std::move(opened);
  return 0;
}

int JoinGroup(int socket, const base::SocketAddress& group,
              uint32_t interface_index) {
  group_req request = {};
  request.gr_interface = interface_index;
  std::memcpy(&request.gr_group, group.get(), group.size());
  const int level = group.family() == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;
  return ::setsockopt(socket, level, MCAST_JOIN_GROUP, &request,
                      sizeof(request)) == 0
             ? 0
             : errno;
}

int SendUdp(int socket, const DatagramRoute& route, uint16_t port,
            const iovec* parts, int count) {
  base::SocketAddress destination = route.destination;
  destination.set_port(port);
  Control control;
  FillControl(route, control);
  msghdr message = {};
  message.msg_name = destination.mutable_get();
  message.msg_namelen = destination.size();
  message.msg_iov = const_cast<iovec*>(parts);
  message.msg_iovlen = static_cast<size_t>(count);
  control.AttachTo(message);
  while (::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return errno == ENOBUFS ? EAGAIN : errno;
  }
  return 0;
}

// Asks again after an error that is about no packet. The kernel changes the
// lengths in `message`, so it is filled in each time.
ssize_t ReceiveUdp(int socket, std::byte* bytes, size_t capacity,
                   UdpArrival& arrival) {
  sockaddr_in6 name = {};
  iovec part = {bytes, capacity};
  alignas(cmsghdr) unsigned char control[CMSG_SPACE(sizeof(in6_pktinfo))];
  msghdr message;
  ssize_t length;
  do {
    message = {};
    message.msg_name = &name;
    message.msg_namelen = sizeof(name);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    length = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_TRUNC);
    // A signal, or news of a packet sent from here that was not delivered.
  } while (length < 0 && (errno == EINTR || errno == ECONNREFUSED));
  if (length < 0) return -1;
  arrival.source = base::SocketAddress::FromSockaddr(
      reinterpret_cast<const sockaddr*>(&name));
  if (!arrival.source.empty()) arrival.source.set_port(0);
  NoteControl(message, arrival);
  return length;
}

}  // namespace verbena::soft
