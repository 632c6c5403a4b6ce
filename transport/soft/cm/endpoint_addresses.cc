#include "transport/soft/cm/endpoint_addresses.h"

#include <cerrno>
#include <utility>

#include "transport/base/unique_fd.h"
#include "transport/soft/address/gid_table.h"
#include "transport/soft/base/descriptor_error.h"
#include "transport/soft/cm/cm_queue_pair.h"
#include "transport/soft/cm/port_space.h"
#include "transport/soft/remote/tcp_socket.h"

namespace verbena::soft {
namespace {

// Numbers that are tried for a listener that leaves the choice of its port.
constexpr int kPortsTried = 100;

}  // namespace

int EndpointAddresses::Bind(CmEndpoint& endpoint, base::SocketAddress address,
                            BindPurpose purpose) {
  if (endpoint.state != CmState::kIdle) return EINVAL;
  if (address.empty()) return EAFNOSUPPORT;
  errno = 0;
  if (!address.IsAny() && !IsLocalAddress(address)) {
    return DescriptorErrorOr(EADDRNOTAVAIL);
  }
  // A wildcard belongs to no device: connections tell which one they are on.
  if (!address.IsAny()) {
    endpoint.verbs = Context();
    if (endpoint.verbs == nullptr) return errno;
    endpoint.port_num = kCmPort;
  }
  if (const int error = OpenSocket(endpoint, address, purpose); error != 0) {
    return error;
  }
  endpoint.SetLocal(address);
  endpoint.Transition(CmState::kBound);
  return 0;
}

// Opens the socket of an endpoint, and sets the port of `address` if that is 0.
// A listener needs the TCP port of the same number too, so another number is
// chosen where some other program has that.
int EndpointAddresses::OpenSocket(CmEndpoint& endpoint,
                                  base::SocketAddress& address,
                                  BindPurpose purpose) {
  PortSpace& space = *endpoint.port_space;
  const bool chooses = address.port() == 0 && endpoint.ps == RDMA_PS_TCP &&
                       purpose != BindPurpose::kConnect &&
                       device_.network().enabled() && !address.IsLoopback();
  if (!chooses) return space.OpenSocket(address, purpose, endpoint.socket);
  int error = EADDRINUSE;
  for (int i = 0; i < kPortsTried && error == EADDRINUSE; ++i) {
    base::SocketAddress chosen = address;
    base::UniqueFd socket;
    error = space.OpenSocket(chosen, purpose, socket);
    if (error != 0) return error;
    base::UniqueFd tcp;
    error =
        OpenTcpListener(chosen, purpose == BindPurpose::kListenIpv6Only, tcp);
    if (error != 0) continue;
    address = chosen;
    endpoint.socket = std::move(socket);
  }
  return error;
}

// Finds the way to the destination, then gives the endpoint a source address if
// it has none. All is done at once; the user learns of it by an event, as from
// the kernel's manager.
int EndpointAddresses::ResolveAddr(CmEndpoint& endpoint,
                                   base::SocketAddress source,
                                   base::SocketAddress destination,
                                   ClosingSockets& closing) {
  const bool idle = endpoint.state == CmState::kIdle;
  if (!idle && endpoint.state != CmState::kBound) return EINVAL;
  if (destination.empty()) return EAFNOSUPPORT;
  // A wildcard leads to this host, as with the kernel's manager.
  if (destination.IsAny()) {
    destination =
        base::SocketAddress::Loopback(destination.family(), destination.port());
  }
  endpoint.SetPeer(destination);

  const bool is_datagram = endpoint.ps == RDMA_PS_UDP;
  const bool source_given = !source.empty() && !source.IsAny();
  const bool wildcard = !idle && endpoint.Local().IsAny();
  // A connection fails here if there is no way to its peer. Datagrams get lost
  // later; a way is looked for only if they have no source address yet.
  if (!is_datagram || (!source_given && (idle || wildcard))) {
    errno = 0;
    base::SocketAddress own = RouteTo(endpoint, destination);
    if (own.empty()) {
      // Out of descriptors nothing can be looked for: that does not mean that
      // there is no way.
      if (const int error = DescriptorErrorOr(0); error != 0) return error;
      events_.Post(endpoint, RDMA_CM_EVENT_ADDR_ERROR,
                   is_datagram ? -ENETUNREACH : -EHOSTUNREACH);
      return 0;
    }
    // RouteTo() chooses no port: the user may have.
    own.set_port(source.port());
    if (!source_given) source = own;
  }
  int error = 0;
  if (idle) error = Bind(endpoint, source, BindPurpose::kConnect);
  if (wildcard) error = LeaveWildcard(endpoint, source, closing);
  if (error != 0) return error;

  endpoint.verbs = Context();
  if (endpoint.verbs == nullptr) return errno;
  endpoint.port_num = kCmPort;
  endpoint.Transition(CmState::kAddressResolved);
  events_.Post(endpoint, RDMA_CM_EVENT_ADDR_RESOLVED);
  return 0;
}

base::SocketAddress EndpointAddresses::RouteTo(
    const CmEndpoint& endpoint, const base::SocketAddress& destination) const {
  if (endpoint.ps == RDMA_PS_UDP) return RouteSource(destination);
  if (IsReachedWithinHost(destination)) return SourceFor(destination);
  if (!device_.network().enabled()) return base::SocketAddress();
  return RouteSource(destination);
}

int EndpointAddresses::LeaveWildcard(CmEndpoint& endpoint,
                                     base::SocketAddress source,
                                     ClosingSockets& closing) {
  source.set_port(endpoint.Local().port());
  // The peer of a connection sees the name of the socket, which must be an
  // address. A datagram names its source itself.
  if (endpoint.ps != RDMA_PS_UDP) {
    base::UniqueFd socket;
    const int error = OpenBoundSocket(source, BindPurpose::kConnect, socket);
    if (error != 0) return error;
    closing.Add(std::exchange(endpoint.socket, std::move(socket)));
  }
  endpoint.SetLocal(source);
  return 0;
}

int EndpointAddresses::ResolveRoute(CmEndpoint& endpoint) {
  // The device knows nothing of routes: the kernel finds one for each message.
  if (endpoint.state != CmState::kAddressResolved) return EINVAL;
  endpoint.Transition(CmState::kRouteResolved);
  events_.Post(endpoint, RDMA_CM_EVENT_ROUTE_RESOLVED);
  return 0;
}

std::shared_ptr<CmEndpoint> EndpointAddresses::MakeRequested(
    const CmEndpoint& listener, const base::SocketAddress& local,
    const base::SocketAddress& peer) {
  ibv_context* context = Context();
  if (context == nullptr) return nullptr;
  std::shared_ptr<CmEndpoint> child = listener.port_space->MakeEndpoint();
  child->manager = listener.manager;
  child->context = listener.context;
  child->verbs = context;
  child->port_num = kCmPort;
  child->ack_timeout = listener.ack_timeout;
  child->SetLocal(local);
  child->SetPeer(peer);
  child->state = CmState::kRequested;
  return child;
}

ibv_ah_attr EndpointAddresses::PathTo(const CmEndpoint& endpoint,
                                      const ibv_gid& gid,
                                      uint8_t hop_limit) const {
  const int index = device_.gids().Find(GidOf(endpoint.Local())).value_or(0);
  ibv_ah_attr path = {};
  path.is_global = 1;
  path.port_num = kCmPort;
  path.grh.dgid = gid;
  path.grh.sgid_index = static_cast<uint8_t>(index);
  path.grh.hop_limit = hop_limit;
  return path;
}

ibv_context* EndpointAddresses::Context() {
  // librdmacm, too, opens each device once and for good. What a parent process
  // has opened is not for its child.
  if (context_ == nullptr || device_.IsLostByFork()) {
    ibv_context* const opened = verbs_.open_device(device_.verbs_device());
    context_ = opened == nullptr ? nullptr : soft::Context::From(opened);
  }
  return context_ == nullptr ? nullptr : &context_->context;
}

}  // namespace verbena::soft
