// Internet addresses as the names of Unix sockets.
//
// Within a host no network is needed. An address and port is a name in the
// abstract namespace of Unix sockets: it is seen by every process of the same
// network namespace, of any user, as a TCP port is; no file stands for it, and
// it is gone with the process. Its ports are independent of the kernel's TCP
// ports. How other hosts reach a listener is in tcp_switch.h.

#ifndef VERBENA_TRANSPORT_SOFT_ADDRESS_CM_ADDRESS_H_
#define VERBENA_TRANSPORT_SOFT_ADDRESS_CM_ADDRESS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "transport/base/socket_address.h"
#include "transport/base/unique_fd.h"
#include "transport/soft/base/peer_users.h"

namespace verbena::soft {

// Whether `address` is an address of this host: a loopback address or that of
// an interface. The port does not matter.
bool IsLocalAddress(const base::SocketAddress& address);

// Whether a peer at `address` is reached within this host, by shared memory.
// True for local addresses, unless ReachAllPeersByNetwork() was called.
bool IsReachedWithinHost(const base::SocketAddress& address);

// For tests, which have both ends in one process: from now on this process
// reaches all peers as it reaches those of other hosts, its own addresses too.
// Thread-safe, but connections that exist stay as they are.
void ReachAllPeersByNetwork();
bool ReachesAllPeersByNetwork();

// The address, with port 0, from which this host connects to `destination`,
// which is an address of its own.
base::SocketAddress SourceFor(const base::SocketAddress& destination);

// The purpose of binding a socket. It decides whether the socket may share its
// port with other sockets.
enum class BindPurpose {
  // To connect. The socket shares the port with any socket of another name.
  kConnect,
  // To listen. The socket shares the port with sockets whose names do not
  // overlap with its own. A wildcard overlaps with all addresses of its port, a
  // wildcard of IPv6 with those of IPv4 too.
  kListen,
  // As kListen, but a wildcard of IPv6 does not overlap with IPv4.
  kListenIpv6Only,
};

// Opens a non-blocking socket with the name of `address`, and chooses a port if
// that is 0: then `address` is changed. Returns 0 or an errno: EADDRINUSE.
int OpenBoundSocket(base::SocketAddress& address, BindPurpose purpose,
                    base::UniqueFd& socket);

// Connects `socket` to whoever listens at `destination`: at that very address,
// or else at a wildcard. Anybody can have taken those names: a listener that is
// not of `users` is passed over, and then `socket` is another socket, of the
// same name if it had one. Never blocks. Returns 0 or an errno: ECONNREFUSED
// when nobody listens, EACCES when only other users do, EAGAIN when the
// listener has too many connections waiting.
int ConnectSocket(const base::SocketAddress& destination,
                  const PeerUsers& users, base::UniqueFd& socket);

// The address in whose name the other end of `socket` was bound; empty when its
// name is not one of ours.
base::SocketAddress PeerOf(int socket);

// The name of the socket at `address`, with its leading zero byte. Only for
// tests, which use it to pretend to be a bad peer.
std::string AbstractName(const base::SocketAddress& address);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_ADDRESS_CM_ADDRESS_H_
