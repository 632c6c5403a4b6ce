// Where a datagram goes, and how.

#ifndef VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_ROUTE_H_
#define VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_ROUTE_H_

#include <cstdint>

#include "transport/base/socket_address.h"

namespace verbena::soft {

// The route that an address handle names, in the terms of sockets.
struct DatagramRoute {
  // The address, with port 0, of another host or of a group; empty when the
  // datagram stays on this host.
  base::SocketAddress destination;
  // The address of this host, with port 0, that the receiver sees.
  base::SocketAddress source;
  // The interface that has `source`. Datagrams to a group leave by it.
  uint32_t interface_index = 0;
  bool multicast = false;  // `destination` is a group.
  uint8_t hop_limit = 0;
  uint8_t traffic_class = 0;

  bool local() const { return destination.empty(); }
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_ROUTE_H_
