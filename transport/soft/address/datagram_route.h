// Where a datagram goes.

#ifndef VERBENA_TRANSPORT_SOFT_ADDRESS_DATAGRAM_ROUTE_H_
#define VERBENA_TRANSPORT_SOFT_ADDRESS_DATAGRAM_ROUTE_H_

#include <cstdint>

#include "transport/base/socket_address.h"

namespace verbena::soft {

struct DatagramRoute {
  // Of another host, or of a group, with port 0; empty for this host.
  base::SocketAddress destination;
  // Of this host, port 0: where it comes from, and on which interface it goes.
  base::SocketAddress source;
  uint32_t interface_index = 0;
  bool multicast = false;
  uint8_t hop_limit = 0;
  uint8_t traffic_class = 0;

  bool local() const { return destination.empty(); }
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_ADDRESS_DATAGRAM_ROUTE_H_
