// Connecting manually: with dest_qp_num and ah_attr, without the connection
// manager.

#ifndef VERBENA_TRANSPORT_SOFT_MANUAL_MANUAL_CONNECTION_H_
#define VERBENA_TRANSPORT_SOFT_MANUAL_MANUAL_CONNECTION_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <memory>

#include "transport/soft/connected/connected_queue_pair.h"
#include "transport/soft/connected/link_finder.h"
#include "transport/soft/manual/manual_link.h"
#include "transport/soft/manual/manual_links.h"

namespace verbena::soft {

// The verb create_qp for the types RC and UC. Its queue pairs can be connected
// manually, and by the connection manager.
ibv_qp* CreateManualQp(ibv_pd* pd, ibv_qp_init_attr* attributes);

// The link of a queue pair that was connected manually, or the peer whose link
// it waits for.
class ManualConnection final : public LinkFinder {
 public:
  // Both outlive it.
  ManualConnection(ConnectedQueuePair& queue_pair, ManualLinks& links);

  // LinkFinder:
  void StopWaitingForReaders() override { may_wait_ = false; }
  void Find(const ibv_qp_attr& attributes) override;
  // A link counts as awaited until the queue pair uses it: what is posted
  // before that is not without a link for good.
  bool awaits() const override {
    return awaits_.load(std::memory_order_relaxed);
  }
  bool TakeAwaited() override;
  bool AwaitAnother() override;
  void RefuseOffers() override;
  void Reset() override;
  void Close() override;
  void DropLink() override { link_.reset(); }

 private:
  // The queue pair uses link_ from now on.
  void Use();

  ConnectedQueuePair& queue_pair_;
  ManualLinks& links_;
  bool may_wait_ = true;
  std::unique_ptr<ManualLink> link_;  // Null without one.
  ManualPeer peer_;                   // The peer whose link is awaited.
  // The peer is to make the link; see ManualLinks.
  std::atomic<bool> awaits_{false};
  // The peer is of another host, and the one that makes the link.
  std::atomic<bool> other_host_makes_it_{false};
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_MANUAL_MANUAL_CONNECTION_H_
