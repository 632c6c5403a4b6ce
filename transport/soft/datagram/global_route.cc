#include "transport/soft/datagram/global_route.h"

#include <arpa/inet.h>
#include <netinet/ip.h>

#include <cstring>

#include "transport/soft/address/mapped_gid.h"

namespace verbena::soft {
namespace {

// Where the IPv4 header stands in the 40 bytes: at their end.
constexpr size_t kIpv4Offset = sizeof(ibv_grh) - sizeof(iphdr);
constexpr uint32_t kFlowLabelMask = 0xfffff;

// The bytes that RoCE v2 puts around the payload: the header of UDP, the base
// and the datagram headers of the transport, and the checksum at the end.
constexpr uint32_t kTransportBytes = 8 + 12 + 8 + 4;

// The sum of RFC 1071, which needs no change of byte order. With a right
// checksum in the header it is 0.
uint16_t Ipv4Checksum(const iphdr& header) {
  uint16_t words[sizeof(header) / 2];
  std::memcpy(words, &header, sizeof(header));
  uint32_t sum = 0;
  for (const uint16_t word : words) sum += word;
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~(sum + (sum >> 16)));
}

iphdr Ipv4Header(const DatagramHeader& header, uint32_t payload_bytes) {
  iphdr ip = {};
  ip.version = 4;
  ip.ihl = sizeof(ip) / 4;
  ip.tos = header.traffic_class;
  ip.tot_len = htons(
      static_cast<uint16_t>(sizeof(ip) + kTransportBytes + payload_bytes));
  ip.frag_off = htons(IP_DF);
  ip.ttl = header.hop_limit;
  ip.protocol = IPPROTO_UDP;
  ip.saddr = Ipv4Of(header.source);
  ip.daddr = Ipv4Of(header.destination);
  ip.check = Ipv4Checksum(ip);
  return ip;
}

ibv_grh Ipv6Header(const DatagramHeader& header, uint32_t payload_bytes) {
  ibv_grh ip = {};
  ip.version_tclass_flow =
      htonl(6u << 28 | uint32_t{header.traffic_class} << 20 |
            (header.flow_label & kFlowLabelMask));
  ip.paylen = htons(static_cast<uint16_t>(kTransportBytes + payload_bytes));
  ip.next_hdr = IPPROTO_UDP;
  ip.hop_limit = header.hop_limit;
  ip.sgid = header.source;
  ip.dgid = header.destination;
  return ip;
}

}  // namespace

ibv_gid GroupOnTheWire(const ibv_gid& group) {
  constexpr uint8_t kScopeBits = 0x0f;
  constexpr uint8_t kLinkScope = 2;
  constexpr uint8_t kSiteScope = 5;
  if (IsIpv4Gid(group) || (group.raw[1] & kScopeBits) > kLinkScope) {
    return group;
  }
  ibv_gid wire = group;
  wire.raw[1] = static_cast<uint8_t>((wire.raw[1] & ~kScopeBits) | kSiteScope);
  return wire;
}

GlobalRouteBytes WriteGlobalRoute(const DatagramHeader& header,
                                  uint32_t payload_bytes) {
  GlobalRouteBytes bytes = {};
  if (IsIpv4Gid(header.source) && IsIpv4Gid(header.destination)) {
    const iphdr ip = Ipv4Header(header, payload_bytes);
    std::memcpy(bytes.data() + kIpv4Offset, &ip, sizeof(ip));
  } else {
    const ibv_grh ip = Ipv6Header(header, payload_bytes);
    std::memcpy(bytes.data(), &ip, sizeof(ip));
  }
  return bytes;
}

// Looks for an IPv4 header first: its checksum tells it from bytes that happen
// to look like one.
std::optional<GlobalRoute> ReadGlobalRoute(const ibv_grh& header) {
  const uint32_t first = ntohl(header.version_tclass_flow);
  const bool says_6 = first >> 28 == 6;
  iphdr ip;
  std::memcpy(&ip, reinterpret_cast<const std::byte*>(&header) + kIpv4Offset,
              sizeof(ip));
  const bool says_4 =
      ip.version == 4 && ip.ihl == sizeof(ip) / 4 && Ipv4Checksum(ip) == 0;
  if (says_4) {
    return GlobalRoute{.source = MappedGid(ip.saddr),
                       .destination = MappedGid(ip.daddr),
                       .flow_label = first & kFlowLabelMask,
                       .hop_limit = ip.ttl,
                       .traffic_class = ip.tos};
  }
  if (!says_6) return std::nullopt;
  return GlobalRoute{.source = header.sgid,
                     .destination = header.dgid,
                     .flow_label = first & kFlowLabelMask,
                     .hop_limit = header.hop_limit,
                     .traffic_class = static_cast<uint8_t>(first >> 20)};
}

}  // namespace verbena::soft
