// The 40 bytes in front of every received datagram: the global route header.
//
// RoCE v2 has no such header on the wire. A device puts the IP header of the
// packet there: that of IPv6 has 40 bytes; that of IPv4 has 20, which are the
// last 20 of the 40.

#ifndef VERBENA_TRANSPORT_SOFT_DATAGRAM_GLOBAL_ROUTE_H_
#define VERBENA_TRANSPORT_SOFT_DATAGRAM_GLOBAL_ROUTE_H_

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "transport/soft/base/limits.h"
#include "transport/soft/datagram/datagram.h"

namespace verbena::soft {

using GlobalRouteBytes = std::array<std::byte, kGlobalRouteBytes>;
static_assert(sizeof(ibv_grh) == sizeof(GlobalRouteBytes));

// The header that the device writes for a datagram of `payload_bytes`.
GlobalRouteBytes WriteGlobalRoute(const DatagramHeader& header,
                                  uint32_t payload_bytes);

// The fields of a global route header.
struct GlobalRoute {
  ibv_gid source;       // The sender.
  ibv_gid destination;  // The receiver, or a group.
  uint32_t flow_label = 0;
  uint8_t hop_limit = 0;
  uint8_t traffic_class = 0;
};

// Reads a header that WriteGlobalRoute() or any other device has written.
// Returns nothing when it is a header of neither IP version. One that could be
// either is taken for IPv4 if its checksum is right.
std::optional<GlobalRoute> ReadGlobalRoute(const ibv_grh& header);

// The IP multicast group by which datagrams to `group` travel: mostly the same.
// Of IPv6 the narrow scopes need an interface with every address, and scope 0
// is reserved; InfiniBand has groups of any scope. Those travel as groups of
// the scope of a site, which datagrams cannot leave without routers.
// REQUIRES: IsMulticastGid(group).
ibv_gid GroupOnTheWire(const ibv_gid& group);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DATAGRAM_GLOBAL_ROUTE_H_
