// UDP sockets with what datagrams of verbs need besides: the source address and
// the interface of each packet.

#ifndef VERBENA_TRANSPORT_SOFT_DATAGRAM_UDP_SOCKET_H_
#define VERBENA_TRANSPORT_SOFT_DATAGRAM_UDP_SOCKET_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "transport/base/socket_address.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/datagram/datagram_route.h"

namespace verbena::soft {

// Opens a non-blocking socket to send from. Returns 0 or an errno.
int OpenUdpSender(int family, base::UniqueFd& socket);
// Opens a non-blocking socket that is bound to `address`, a wildcard or a
// group, beside others of the same port. It receives nothing that is sent to
// groups that it has not joined itself. Returns 0 or an errno.
int OpenUdpReceiver(const base::SocketAddress& address, base::UniqueFd& socket);

// Joins `group` on the interface of that index.
int JoinGroup(int socket, const base::SocketAddress& group,
              uint32_t interface_index);

// Sends `parts` as one packet. Returns 0 or an errno: EAGAIN when the host has
// no room for it.
int SendUdp(int socket, const DatagramRoute& route, uint16_t port,
            const iovec* parts, int count);

// The addresses of a received packet, as the kernel reports them, with port 0.
struct UdpArrival {
  base::SocketAddress source;
  base::SocketAddress destination;  // An address of this host, or a group.
  uint32_t interface_index = 0;
};

// Receives one packet. Returns its length, more than `capacity` when it was
// cut, or -1 when there is none.
ssize_t ReceiveUdp(int socket, std::byte* bytes, size_t capacity,
                   UdpArrival& arrival);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DATAGRAM_UDP_SOCKET_H_
