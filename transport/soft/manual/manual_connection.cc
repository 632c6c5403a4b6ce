#include "transport/soft/manual/manual_connection.h"

#include <cerrno>

#include "transport/soft/address/cm_address.h"
#include "transport/soft/address/gid_table.h"
#include "transport/soft/device/context.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/verbs/create_queues.h"
#include "transport/soft/verbs/refuse.h"

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
  // The peer knows this side by the address that the path comes from.
  const ibv_gid_entry own =
      gids.At(path.grh.sgid_index).value_or(ibv_gid_entry{});
  const base::SocketAddress host =
      AddressOf(path.grh.dgid, 0, own.ndev_ifindex);
  if (host.empty() || IsReachedWithinHost(host)) return peer;
  peer.host = host;
  peer.source = AddressOf(own.gid, 0, own.ndev_ifindex);
  return peer;
}

}  // namespace

ibv_qp* CreateManualQp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  if (attributes->qp_type != IBV_QPT_RC && attributes->qp_type != IBV_QPT_UC) {
    return Refuse<ibv_qp>(EOPNOTSUPP);
  }
  return CreateQpBy(
      [](SoftDevice& device, ProtectionDomain& domain,
         const ibv_qp_init_attr& granted) -> std::unique_ptr<QueuePair> {
        auto made = std::make_unique<ConnectedQueuePair>(
            device, domain, granted, NumberKind::kOfHost);
        if (made->qp_num != 0) {
          made->SetLinkFinder(
              std::make_unique<ManualConnection>(*made, ManualLinks::Get()));
        }
        return made;
      },
      pd, attributes);
}

ManualConnection::ManualConnection(ConnectedQueuePair& queue_pair,
                                   ManualLinks& links)
    : queue_pair_(queue_pair), links_(links) {
  links_.Add(&queue_pair_);
}

void ManualConnection::Find(const ibv_qp_attr& attributes) {
  peer_ = PeerOf(attributes, SoftDevice::Get().gids());
  other_host_makes_it_ =
      ManualLinks::IsMadeByOtherHost(queue_pair_.qp_num, peer_);
  link_.reset();
  link_ = links_.Connect(queue_pair_.qp_num, peer_, may_wait_);
  awaits_ = link_ == nullptr;
  if (link_ != nullptr) {
    Use();
  } else {
    // A link that came after Connect() has looked, and before awaits_ was set,
    // found nobody waiting: look once more.
    TakeAwaited();
  }
}

bool ManualConnection::TakeAwaited() {
  // The link is there already, or is not for the peer to make.
  if (!awaits_) return false;
  link_ = links_.Take(queue_pair_.qp_num, peer_);
  if (link_ == nullptr) return false;
  Use();
  return true;
}

// A peer of this host lets go of one link before it makes another, so a link
// that it has left is never taken.
bool ManualConnection::AwaitAnother() {
  if (!other_host_makes_it_) return false;
  awaits_ = true;
  return true;
}

void ManualConnection::Use() {
  link_->Start(SoftDevice::Get().engine(), queue_pair_);
  awaits_ = false;
}

void ManualConnection::RefuseOffers() {
  links_.RefuseOffers(queue_pair_.qp_num);
}

void ManualConnection::Reset() {
  awaits_ = false;
  link_.reset();
  links_.DropLinksOf(queue_pair_.qp_num);
}

void ManualConnection::Close() {
  awaits_ = false;
  links_.Remove(queue_pair_.qp_num);
}

}  // namespace verbena::soft
