#include "transport/soft/address/legal_path.h"

#include <optional>

#include "transport/soft/address/mapped_gid.h"
#include "transport/soft/address/port_states.h"

namespace verbena::soft {
namespace {

constexpr uint8_t kServiceLevelMax = 15;  // Four bits.

}  // namespace

// RoCE has no LIDs, so each path needs a global route.
bool PathIsLegal(const ibv_ah_attr& attributes, GidTable& gids) {
  const ibv_global_route& route = attributes.grh;
  if (!IsPort(attributes.port_num) || attributes.is_global == 0 ||
      attributes.sl > kServiceLevelMax) {
    return false;
  }
  const std::optional<ibv_gid_entry> source = gids.At(route.sgid_index);
  if (!source.has_value() || AddressOf(route.dgid).empty() ||
      AddressOf(route.dgid).IsAny()) {
    return false;
  }
  // A group may be of either family, and datagrams to it leave by the interface
  // of the source; to a host, source and destination must be of one family.
  return IsMulticastGid(route.dgid) ||
         IsIpv4Gid(route.dgid) == IsIpv4Gid(source->gid);
}

}  // namespace verbena::soft
