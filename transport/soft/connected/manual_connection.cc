#include "transport/soft/connected/manual_connection.h"

#include "transport/soft/address/cm_address.h"
#include "transport/soft/address/gid_table.h"

namespace verbena::soft {
namespace {

// The peer that the attributes name. If its address is link-local, it is on the
// interface of the address that we come from.
ManualPeer PeerOf(const ibv_qp_attr& attributes, GidTable& gids) {
  ManualPeer peer;
  peer.number = attributes.dest_qp_num;
  const ibv_ah_attr& path = attributes.ah_attr;
  if (path.is_global == 0) return peer;
  gids.Refresh();
  const ibv_gid_entry own =
      gids.At(path.grh.sgid_index).value_or(ibv_gid_entry{});
  const base::SocketAddress host =
      AddressOf(path.grh.dgid, 0, own.ndev_ifindex);
  if (host.empty() || IsLocalAddress(host)) return peer;
  peer.host = host;
  peer.source = AddressOf(own.gid, 0, own.ndev_ifindex);
  return peer;
}

}  // namespace

ManualLink* ManualConnection::Connect(uint32_t own,
                                      const ibv_qp_attr& attributes) {
  peer_ = PeerOf(attributes, device_.gids());
  link_.reset();
  link_ = device_.queue_pairs().Connect(own, peer_, may_wait_);
  awaits_ = link_ == nullptr;
  if (link_ != nullptr) return link_.get();
  // A link that came after Connect() has looked, and before awaits_ was set,
  // found nobody waiting: look once more.
  return TakeAwaited(own);
}

ManualLink* ManualConnection::TakeAwaited(uint32_t own) {
  if (!awaits_) return nullptr;
  link_ = device_.queue_pairs().Take(own, peer_);
  return link_.get();
}

}  // namespace verbena::soft
