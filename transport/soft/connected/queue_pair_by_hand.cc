// Connecting by hand: with dest_qp_num and ah_attr, without the connection
// manager.

#include <optional>
#include <utility>

#include "transport/soft/address/cm_address.h"
#include "transport/soft/address/gid_table.h"
#include "transport/soft/connected/queue_pair.h"
#include "transport/soft/device/soft_device.h"

namespace verbena::soft {
namespace {

// Whom the attributes name. A link-local address is on the interface of the
// address we come from.
HandPeer PeerOf(const ibv_qp_attr& attributes, GidTable& gids) {
  HandPeer peer;
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

// A number that nobody has is as legal as on a NIC: what is sent to it ends
// with its retries exceeded.
void QueuePair::ConnectByHand(const ibv_qp_attr& attributes) {
  hand_peer_ = PeerOf(attributes, device_.gids());
  hand_link_.reset();
  hand_link_ = device_.queue_pairs().Connect(qp_num, hand_peer_);
  if (hand_link_ == nullptr) {
    awaits_link_ = true;
    // One that came before this found nobody waiting.
    hand_link_ = device_.queue_pairs().Take(qp_num, hand_peer_);
  }
  if (hand_link_ == nullptr) return;
  awaits_link_ = false;
  hand_link_->Start(*this, device_.engine());
}

void QueuePair::TakeAwaitedLink() {
  const std::unique_lock<std::mutex> modifying(modify_mutex_, std::try_to_lock);
  if (!modifying.owns_lock()) {
    device_.engine().Kick(this);  // Modify() does not take long.
    return;
  }
  if (!awaits_link_) return;
  hand_link_ = device_.queue_pairs().Take(qp_num, hand_peer_);
  if (hand_link_ == nullptr) return;
  awaits_link_ = false;
  hand_link_->Start(*this, device_.engine());
  BiasedLock::Guard polls(recv_cq_.polling_lock());
  BiasedLock::Guard lock(lock_);
  if (!MayReceive()) return;
  OpenLink();
  NotePath();
}

// A NIC does not notice that its peer is gone: what was posted to receive stays
// posted, and what was sent ends when its retries are exceeded. So it does
// here, even though we know: other queue pairs may have news from the same peer
// that is still under way, and must not come behind that.
void QueuePair::OnHandLinkEnd() {
  std::optional<LinkMemory> memory;  // Until the locks are released.
  {
    BiasedLock::Guard polls(recv_cq_.polling_lock());
    BiasedLock::Guard lock(lock_);
    if (Connected()) Drain();  // What the peer had sent.
    if (state_ == IBV_QPS_RESET || state_ == IBV_QPS_ERR) return;
    memory = Detach();
    NotePeerState();
    TellEngine();
  }
  device_.engine().Kick(this);  // For what waits until its time is over.
}

}  // namespace verbena::soft
