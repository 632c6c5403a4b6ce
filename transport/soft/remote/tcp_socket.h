// The TCP sockets between hosts: how they are opened, and how long they wait.

#ifndef VERBENA_TRANSPORT_SOFT_REMOTE_TCP_SOCKET_H_
#define VERBENA_TRANSPORT_SOFT_REMOTE_TCP_SOCKET_H_

#include <chrono>
#include <cstdint>

#include "transport/base/socket_address.h"
#include "transport/base/unique_fd.h"

namespace verbena::soft {

// How long the peer's host may leave bytes unacknowledged before it counts as
// dead. TCP tries again after 0.2 s, 0.6 s, 1.4 s, 3 s and 6.2 s, so a
// connection survives if the cable is put back within six seconds.
inline constexpr std::chrono::seconds kTcpSilenceMax(10);

// How long a connection is silent before TCP asks whether the peer is there.
inline constexpr std::chrono::seconds kTcpKeepaliveAfter(5);
inline constexpr std::chrono::seconds kTcpKeepaliveEvery(1);

// The port that VERBENA_SOFT_TCP_PORT names; kTcpPortDefault without it, and 0
// when it is "off" or anything else that is no port.
uint16_t TcpPortFromEnvironment();

// Marks what the socket sends: the type of service of IPv4, the traffic class
// of IPv6.
void SetTrafficClass(int socket, uint8_t traffic_class);

// Begins to connect; never blocks. `source` is the address to come from, empty
// for any. Returns 0 or an errno; `socket` becomes writable when it is
// connected or has failed.
int StartTcpConnect(const base::SocketAddress& source,
                    const base::SocketAddress& destination,
                    uint8_t traffic_class, base::UniqueFd& socket);

// The outcome of StartTcpConnect once `socket` is writable: 0 or an errno.
int TcpConnectResult(int socket);

// Listens at `address`. That of a wildcard of IPv6 is one of IPv4 too, unless
// `ipv6_only` is true. Returns 0 or an errno: EADDRINUSE.
int OpenTcpListener(const base::SocketAddress& address, bool ipv6_only,
                    base::UniqueFd& socket);
// Listens at `port` of every address, IPv4 and IPv6.
int OpenTcpListener(uint16_t port, base::UniqueFd& socket);

// Prepares a socket that was accepted by somebody: never to block, to send at
// once, and to notice a dead peer. False when it is no TCP socket.
bool AdoptTcpSocket(int socket);

// The two ends of a connection; empty when the socket is not connected. An IPv4
// address that the kernel writes as an IPv4-mapped IPv6 one becomes IPv4 again.
base::SocketAddress TcpLocalAddress(int socket);
base::SocketAddress TcpPeerAddress(int socket);

// The address from which the kernel would send to `destination`, port 0; empty,
// with errno, when there is no route.
base::SocketAddress RouteSource(const base::SocketAddress& destination);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_REMOTE_TCP_SOCKET_H_
