#include "transport/soft/remote/tcp_socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "transport/soft/address/gid_table.h"
#include "transport/soft/remote/tcp_protocol.h"

namespace verbena::soft {
namespace {

using base::SocketAddress;

constexpr int kBacklog = 1024;

void SetInt(int socket, int level, int option, int value) {
  ::setsockopt(socket, level, option, &value, sizeof(value));
}

// Batches are put together before they are sent, so nothing is gained by
// waiting for more (TCP_NODELAY). TCP_USER_TIMEOUT ends a connection with bytes
// that stay unacknowledged, and one whose keepalive probes stay unanswered: it
// overrides their number (tcp(7)).
void Tune(int socket) {
  SetInt(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  SetInt(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetInt(socket, IPPROTO_TCP, TCP_KEEPIDLE,
         static_cast<int>(kTcpKeepaliveAfter.count()));
  SetInt(socket, IPPROTO_TCP, TCP_KEEPINTVL,
         static_cast<int>(kTcpKeepaliveEvery.count()));
  SetInt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT,
         static_cast<int>(std::chrono::milliseconds(kTcpSilenceMax).count()));
}

using NameFunction = int (*)(int, sockaddr*, socklen_t*);

SocketAddress NameOf(int socket, NameFunction function) {
  sockaddr_in6 storage = {};
  socklen_t length = sizeof(storage);
  if (function(socket, reinterpret_cast<sockaddr*>(&storage), &length) != 0) {
    return SocketAddress();
  }
  const SocketAddress address =
      SocketAddress::FromSockaddr(reinterpret_cast<const sockaddr*>(&storage));
  if (address.family() != AF_INET6) return address;
  return AddressOf(GidOf(address), address.port(), storage.sin6_scope_id);
}

}  // namespace

uint16_t TcpPortFromEnvironment() {
  const char* const text = std::getenv("VERBENA_SOFT_TCP_PORT");
  if (text == nullptr) return kTcpPortDefault;
  uint32_t port = 0;
  return absl::SimpleAtoi(text, &port) && port <= UINT16_MAX
             ? static_cast<uint16_t>(port)
             : 0;
}

// A socket of IPv6 may carry IPv4 as well, and has both options; one of IPv4
// refuses the second.
void SetTrafficClass(int socket, uint8_t traffic_class) {
  if (traffic_class == 0) return;
  SetInt(socket, IPPROTO_IP, IP_TOS, traffic_class);
  SetInt(socket, IPPROTO_IPV6, IPV6_TCLASS, traffic_class);
}

int StartTcpConnect(const SocketAddress& source,
                    const SocketAddress& destination, uint8_t traffic_class,
                    base::UniqueFd& result) {
  base::UniqueFd socket(::socket(
      destination.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return errno;
  Tune(socket.get());
  SetTrafficClass(socket.get(), traffic_class);
  if (!source.empty() && !source.IsAny()) {
    // The port is chosen when it connects, from those that are free for this
    // destination.
    SetInt(socket.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    if (::bind(socket.get(), source.get(), source.size()) != 0) return errno;
  }
  // The socket does not block, so the outcome comes later: see
  // TcpConnectResult().
  if (::connect(socket.get(), destination.get(), destination.size()) != 0 &&
      errno != EINPROGRESS) {
    return errno;
  }
  result = std::move(socket);
  return 0;
}

int TcpConnectResult(int socket) {
  int error = 0;
  socklen_t length = sizeof(error);
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
    return errno;
  }
  return error;
}

int OpenTcpListener(const SocketAddress& address, bool ipv6_only,
                    base::UniqueFd& result) {
  const int family = address.family();
  base::UniqueFd socket(
      ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return errno;
  // Connections of the process that had the port before us must not keep us
  // from it.
  SetInt(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  // Whatever the host's default is.
  if (family == AF_INET6) {
    SetInt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, ipv6_only ? 1 : 0);
  }
  if (::bind(socket.get(), address.get(), address.size()) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    return errno;
  }
  result = std::move(socket);
  return 0;
}

int OpenTcpListener(uint16_t port, base::UniqueFd& socket) {
  const int error =
      OpenTcpListener(SocketAddress::Any(AF_INET6, port), false, socket);
  // The host has no IPv6.
  if (error == EAFNOSUPPORT || error == EADDRNOTAVAIL) {
    return OpenTcpListener(SocketAddress::Any(AF_INET, port), false, socket);
  }
  return error;
}

// The socket may come from any process, so its kind is looked at, and its
// options are set anew.
bool AdoptTcpSocket(int socket) {
  int protocol = 0;
  socklen_t length = sizeof(protocol);
  if (::getsockopt(socket, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) != 0 ||
      protocol != IPPROTO_TCP || TcpPeerAddress(socket).empty()) {
    return false;
  }
  const int flags = ::fcntl(socket, F_GETFL);
  if (flags < 0 || ::fcntl(socket, F_SETFL, flags | O_NONBLOCK) != 0) {
    return false;
  }
  // TcpSwitch has raised it to the length of a preamble.
  SetInt(socket, SOL_SOCKET, SO_RCVLOWAT, 1);
  Tune(socket);
  return true;
}

SocketAddress TcpLocalAddress(int socket) {
  return NameOf(socket, ::getsockname);
}

SocketAddress TcpPeerAddress(int socket) {
  return NameOf(socket, ::getpeername);
}

// To connect a UDP socket sends nothing: the kernel only chooses the route.
SocketAddress RouteSource(const SocketAddress& destination) {
  const base::UniqueFd socket(
      ::socket(destination.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  SocketAddress target = destination;
  if (target.port() == 0) target.set_port(kTcpPortDefault);
  if (!socket.valid() ||
      ::connect(socket.get(), target.get(), target.size()) != 0) {
    return SocketAddress();
  }
  SocketAddress source = NameOf(socket.get(), ::getsockname);
  if (!source.empty()) source.set_port(0);
  return source;
}

}  // namespace verbena::soft
