// libibverbs and librdmacm: address handles and multicast.

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "transport/soft/preload/next_definition.h"
#include "transport/soft/preload/soft_objects.h"
#include "transport/soft/services/service_ops.h"

namespace verbena::soft {

extern "C" {

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
  return VerbsOf(pd->context).create_ah(pd, attributes);
}

int ibv_init_ah_from_wc(ibv_context* context, uint8_t port, ibv_wc* wc,
                        ibv_grh* grh, ibv_ah_attr* attributes) {
  return VerbsOf(context).init_ah_from_wc(context, port, wc, grh, attributes);
}

ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh,
                              uint8_t port) {
  return VerbsOf(pd->context).create_ah_from_wc(pd, wc, grh, port);
}

int ibv_destroy_ah(ibv_ah* ah) { return VerbsOf(ah->context).destroy_ah(ah); }

int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
  return VerbsOf(qp->context).attach_mcast(qp, gid, lid);
}

int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
  return VerbsOf(qp->context).detach_mcast(qp, gid, lid);
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
