#include "transport/soft/datagram/address_handle.h"

#include <cerrno>
#include <optional>

#include "transport/soft/address/cm_address.h"
#include "transport/soft/address/gid_table.h"
#include "transport/soft/address/legal_path.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/datagram/global_route.h"
#include "transport/soft/device/soft_device.h"

namespace verbena::soft {
std::unique_ptr<AddressHandle> AddressHandle::Create(
    ProtectionDomain& pd, const ibv_ah_attr& attributes) {
  GidTable& gids = pd.owner().soft_device().gids();
  // The addresses of the host may have changed since the table was read.
  gids.Refresh();
  const std::optional<ibv_gid_entry> source =
      gids.At(attributes.grh.sgid_index);
  if (!source.has_value() || !PathIsLegal(attributes, gids)) {
    errno = EINVAL;
    return nullptr;
  }
  // Counted first, so that two threads do not take the last one both.
  if (++pd.owner().address_handles() > kAddressHandlesMax) {
    --pd.owner().address_handles();
    errno = ENOMEM;
    return nullptr;
  }
  return std::unique_ptr<AddressHandle>(
      new AddressHandle(pd, attributes, gids, *source));
}

// Works out, once for all sends, the header that they show and the route in the
// terms of sockets.
AddressHandle::AddressHandle(ProtectionDomain& domain,
                             const ibv_ah_attr& attributes, GidTable& gids,
                             const ibv_gid_entry& source)
    : ibv_ah() {
  context = domain.context;
  pd = &domain;
  const ibv_global_route& path = attributes.grh;
  header_.source = source.gid;
  header_.destination = path.dgid;
  header_.hop_limit = path.hop_limit;
  header_.traffic_class = path.traffic_class;
  // WriteGlobalRoute() keeps only the low twenty bits, as NICs do.
  header_.flow_label = path.flow_label;
  header_.service_level = attributes.sl;
  route_.multicast = IsMulticastGid(path.dgid);
  // A route without a destination stays on this host, where the queue pair is
  // found by its number alone.
  const ibv_gid to = route_.multicast ? GroupOnTheWire(path.dgid) : path.dgid;
  const base::SocketAddress destination = AddressOf(to, 0, source.ndev_ifindex);
  const bool local =
      gids.Find(path.dgid).has_value() || destination.IsLoopback();
  if (!local || ReachesAllPeersByNetwork()) {
    route_.destination = destination;
  }
  route_.source = AddressOf(source.gid, 0, source.ndev_ifindex);
  route_.interface_index = source.ndev_ifindex;
  route_.hop_limit = path.hop_limit;
  route_.traffic_class = path.traffic_class;
  ++domain.children();
}

AddressHandle::~AddressHandle() {
  --ProtectionDomain::From(pd)->children();
  --Context::From(context)->address_handles();
}

}  // namespace verbena::soft
