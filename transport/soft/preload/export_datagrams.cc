// libibverbs and librdmacm: address handles and multicast.

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "transport/soft/cm_ops.h"
#include "transport/soft/datagram_verbs.h"
#include "transport/soft/preload/next_definition.h"
#include "transport/soft/preload/soft_objects.h"

namespace verbena::soft {

extern "C" {

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
  if (IsSoft(pd->context)) return CreateAh(pd, attributes);
  static const decltype(&ibv_create_ah) next = NextDefinition("ibv_create_ah");
  return next(pd, attributes);
}

int ibv_init_ah_from_wc(ibv_context* context, uint8_t port, ibv_wc* wc,
                        ibv_grh* grh, ibv_ah_attr* attributes) {
  if (IsSoft(context)) return InitAhFromWc(context, port, wc, grh, attributes);
  static const decltype(&ibv_init_ah_from_wc) next =
      NextDefinition("ibv_init_ah_from_wc");
  return next(context, port, wc, grh, attributes);
}

ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh,
                              uint8_t port) {
  if (IsSoft(pd->context)) return CreateAhFromWc(pd, wc, grh, port);
  static const decltype(&ibv_create_ah_from_wc) next =
      NextDefinition("ibv_create_ah_from_wc");
  return next(pd, wc, grh, port);
}

int ibv_destroy_ah(ibv_ah* ah) {
  if (IsSoft(ah->context)) return DestroyAh(ah);
  static const decltype(&ibv_destroy_ah) next =
      NextDefinition("ibv_destroy_ah");
  return next(ah);
}

int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
  if (IsSoft(qp->context)) return AttachMcast(qp, gid, lid);
  static const decltype(&ibv_attach_mcast) next =
      NextDefinition("ibv_attach_mcast");
  return next(qp, gid, lid);
}

int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
  if (IsSoft(qp->context)) return DetachMcast(qp, gid, lid);
  static const decltype(&ibv_detach_mcast) next =
      NextDefinition("ibv_detach_mcast");
  return next(qp, gid, lid);
}

int rdma_join_multicast(rdma_cm_id* id, sockaddr* group, void* context) {
  if (SoftConnects()) return JoinMulticast(id, group, context);
  static const decltype(&rdma_join_multicast) next =
      NextDefinition("rdma_join_multicast");
  return next(id, group, context);
}

int rdma_join_multicast_ex(rdma_cm_id* id, rdma_cm_join_mc_attr_ex* attributes,
                           void* context) {
  if (SoftConnects()) return JoinMulticastEx(id, attributes, context);
  static const decltype(&rdma_join_multicast_ex) next =
      NextDefinition("rdma_join_multicast_ex");
  return next(id, attributes, context);
}

int rdma_leave_multicast(rdma_cm_id* id, sockaddr* group) {
  if (SoftConnects()) return LeaveMulticast(id, group);
  static const decltype(&rdma_leave_multicast) next =
      NextDefinition("rdma_leave_multicast");
  return next(id, group);
}

}  // extern "C"

}  // namespace verbena::soft
