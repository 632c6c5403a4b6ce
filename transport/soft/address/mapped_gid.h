// GIDs that stand for IPv4 addresses: IPv4-mapped IPv6 addresses,
// ::ffff:a.b.c.d.

#ifndef VERBENA_TRANSPORT_SOFT_ADDRESS_MAPPED_GID_H_
#define VERBENA_TRANSPORT_SOFT_ADDRESS_MAPPED_GID_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <cstring>

namespace verbena::soft {

inline constexpr uint8_t kMappedPrefix[12] = {0, 0, 0, 0, 0,    0,
                                              0, 0, 0, 0, 0xff, 0xff};

inline bool IsIpv4Gid(const ibv_gid& gid) {
  return std::memcmp(gid.raw, kMappedPrefix, sizeof(kMappedPrefix)) == 0;
}

// The address that `gid` stands for, in network byte order.
// REQUIRES: IsIpv4Gid(gid).
inline uint32_t Ipv4Of(const ibv_gid& gid) {
  uint32_t address;
  std::memcpy(&address, gid.raw + sizeof(kMappedPrefix), sizeof(address));
  return address;
}

// The GID of `address`, which is in network byte order.
inline ibv_gid MappedGid(uint32_t address) {
  ibv_gid gid;
  std::memcpy(gid.raw, kMappedPrefix, sizeof(kMappedPrefix));
  std::memcpy(gid.raw + sizeof(kMappedPrefix), &address, sizeof(address));
  return gid;
}

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_ADDRESS_MAPPED_GID_H_
