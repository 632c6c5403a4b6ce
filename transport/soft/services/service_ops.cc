#include "transport/soft/services/service_ops.h"

#include <cerrno>

#include "transport/base/socket_address.h"
#include "transport/soft/cm/cm_endpoint.h"
#include "transport/soft/cm/cm_locks.h"
#include "transport/soft/cm/cm_ops.h"
#include "transport/soft/cm/connection_manager.h"
#include "transport/soft/services/datagram_service.h"

namespace verbena::soft {
namespace {

int Join(rdma_cm_id* id, sockaddr* group, bool send_only, void* context) {
  if (id->ps != RDMA_PS_UDP) return EINVAL;
  CmEndpoint& endpoint = *CmEndpoint::From(id);
  const EndpointsLock lock(endpoint.manager->mutex());
  return DatagramService::Of(endpoint).groups().Join(
      ServiceEndpoint::From(endpoint), base::SocketAddress::FromSockaddr(group),
      send_only, context);
}

}  // namespace

int JoinMulticast(rdma_cm_id* id, sockaddr* group, void* context) {
  return CmResult(Join(id, group, false, context));
}

int JoinMulticastEx(rdma_cm_id* id, rdma_cm_join_mc_attr_ex* attributes,
                    void* context) {
  constexpr uint32_t kAll = RDMA_CM_JOIN_MC_ATTR_RESERVED - 1;
  if ((attributes->comp_mask & ~kAll) != 0 ||
      (attributes->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) == 0 ||
      (attributes->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) == 0) {
    return CmResult(EINVAL);
  }
  return CmResult(
      Join(id, attributes->addr,
           attributes->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
           context));
}

int LeaveMulticast(rdma_cm_id* id, sockaddr* group) {
  if (id->ps != RDMA_PS_UDP) return CmResult(EADDRNOTAVAIL);
  CmEndpoint& endpoint = *CmEndpoint::From(id);
  const EndpointsLock lock(endpoint.manager->mutex());
  return CmResult(DatagramService::Of(endpoint).groups().Leave(
      ServiceEndpoint::From(endpoint),
      base::SocketAddress::FromSockaddr(group)));
}

}  // namespace verbena::soft
