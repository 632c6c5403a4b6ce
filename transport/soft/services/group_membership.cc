#include "transport/soft/services/group_membership.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "transport/soft/datagram/datagram.h"
#include "transport/soft/datagram/datagram_verbs.h"

namespace verbena::soft {
namespace {

constexpr uint8_t kHopLimit = 1;

}  // namespace

// Attaches the queue pair before anything is noted, because only that can still
// fail. The event comes at once, as nobody else is asked.
int GroupMembership::Join(ServiceEndpoint& endpoint,
                          const base::SocketAddress& group, bool send_only,
                          void* context) {
  const ibv_gid gid = GidOf(group);
  if (endpoint.verbs == nullptr || group.empty() || !IsMulticastGid(gid)) {
    return EINVAL;
  }
  const ibv_ah_attr path = addresses_.PathTo(endpoint, gid, kHopLimit);
  const auto source = gids_.At(path.grh.sgid_index);
  if (!source.has_value()) return EADDRNOTAVAIL;
  const bool attach = endpoint.qp != nullptr && !send_only;
  if (attach) {
    const int error = AttachMcastOn(endpoint.qp, &gid, source->ndev_ifindex);
    if (error != 0) return error;
  }
  endpoint.groups.push_back({gid, attach});
  auto event = std::make_unique<CmEventRecord>(RDMA_CM_EVENT_MULTICAST_JOIN);
  rdma_ud_param& parameters = event->param.ud;
  parameters.private_data = context;
  parameters.ah_attr = path;
  parameters.qp_num = kMulticastQueuePair;
  parameters.qkey = RDMA_UDP_QKEY;
  events_.Post(endpoint, std::move(event));
  return 0;
}

int GroupMembership::Leave(ServiceEndpoint& endpoint,
                           const base::SocketAddress& group) {
  const ibv_gid gid = GidOf(group);
  const auto found = std::find_if(
      endpoint.groups.begin(), endpoint.groups.end(),
      [&](const GroupRecord& record) { return SameGid(record.gid, gid); });
  if (found == endpoint.groups.end()) return EADDRNOTAVAIL;
  if (found->attached) DetachMcast(endpoint.qp, &gid, 0);
  endpoint.groups.erase(found);
  return 0;
}

// The records stay, for Leave() to find; only the queue pair is let go of.
void GroupMembership::DetachQueuePair(ServiceEndpoint& endpoint) {
  for (GroupRecord& record : endpoint.groups) {
    if (std::exchange(record.attached, false)) {
      DetachMcast(endpoint.qp, &record.gid, 0);
    }
  }
}

}  // namespace verbena::soft
