#include "transport/soft/datagram/datagram_verbs.h"

#include <cerrno>
#include <memory>
#include <optional>
#include <set>

#include "transport/soft/address/gid_table.h"
#include "transport/soft/address/port_states.h"
#include "transport/soft/datagram/address_handle.h"
#include "transport/soft/datagram/datagram_device.h"
#include "transport/soft/datagram/datagram_queue_pair.h"
#include "transport/soft/datagram/global_route.h"
#include "transport/soft/device/context.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/queues/queue_pair.h"
#include "transport/soft/verbs/create_queues.h"

namespace verbena::soft {
namespace {

int Attach(ibv_qp* qp, const ibv_gid& group,
           const std::set<uint32_t>& interfaces) {
  if (qp->qp_type != IBV_QPT_UD) return EINVAL;
  const int error =
      DatagramDevice::Get().groups.Attach(qp->qp_num, group, interfaces);
  // As long as it is attached, the queue pair cannot be destroyed.
  if (error == 0) ++QueuePair::From(qp)->children();
  return error;
}

}  // namespace

ibv_qp* CreateDatagramQp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  return CreateQpBy(
      [](SoftDevice& device, ProtectionDomain& domain,
         const ibv_qp_init_attr& granted) -> std::unique_ptr<QueuePair> {
        return std::make_unique<DatagramQueuePair>(device, domain, granted);
      },
      pd, attributes);
}

ibv_ah* CreateAh(ibv_pd* pd, ibv_ah_attr* attributes) {
  return AddressHandle::Create(*ProtectionDomain::From(pd), *attributes)
      .release();
}

int DestroyAh(ibv_ah* ah) {
  delete AddressHandle::From(ah);
  return 0;
}

// The way back: the sender of the datagram becomes the destination, and the
// address that it was sent to becomes the source.
int InitAhFromWc(ibv_context* context, uint8_t port, ibv_wc* wc, ibv_grh* grh,
                 ibv_ah_attr* attributes) {
  *attributes = {};
  const auto refuse = [](int error) {
    errno = error;
    return -1;
  };
  if (!IsPort(port) || (wc->wc_flags & IBV_WC_GRH) == 0) return refuse(EINVAL);
  const std::optional<GlobalRoute> route = ReadGlobalRoute(*grh);
  if (!route.has_value()) return refuse(EPROTONOSUPPORT);
  GidTable& gids = Context::From(context)->soft_device().gids();
  gids.Refresh();
  // The address of a group is not one of ours to answer from.
  const std::optional<int> index = gids.Find(route->destination);
  if (!index.has_value()) return refuse(EINVAL);
  attributes->is_global = 1;
  attributes->dlid = wc->slid;
  attributes->sl = wc->sl;
  attributes->src_path_bits = wc->dlid_path_bits;
  attributes->port_num = port;
  attributes->grh.dgid = route->source;
  attributes->grh.sgid_index = static_cast<uint8_t>(*index);
  attributes->grh.flow_label = route->flow_label;
  attributes->grh.hop_limit = route->hop_limit;
  attributes->grh.traffic_class = route->traffic_class;
  return 0;
}

ibv_ah* CreateAhFromWc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, uint8_t port) {
  ibv_ah_attr attributes;
  if (InitAhFromWc(pd->context, port, wc, grh, &attributes) != 0) {
    return nullptr;
  }
  return CreateAh(pd, &attributes);
}

int AttachMcast(ibv_qp* qp, const ibv_gid* group, uint16_t /*lid*/) {
  GidTable& gids = Context::From(qp->context)->soft_device().gids();
  gids.Refresh();
  std::set<uint32_t> interfaces;
  for (int index = 0; index < GidTable::kEntries; ++index) {
    const std::optional<ibv_gid_entry> entry = gids.At(index);
    if (entry.has_value()) interfaces.insert(entry->ndev_ifindex);
  }
  return Attach(qp, *group, interfaces);
}

int AttachMcastOn(ibv_qp* qp, const ibv_gid* group, uint32_t interface_index) {
  return Attach(qp, *group, {interface_index});
}

int DetachMcast(ibv_qp* qp, const ibv_gid* group, uint16_t /*lid*/) {
  if (qp->qp_type != IBV_QPT_UD) return EINVAL;
  const int error = DatagramDevice::Get().groups.Detach(qp->qp_num, *group);
  if (error == 0) --QueuePair::From(qp)->children();
  return error;
}

}  // namespace verbena::soft
