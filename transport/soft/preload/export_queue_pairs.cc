// libibverbs: shared receive queues and queue pairs.

#include <infiniband/verbs.h>

#include "transport/soft/preload/next_definition.h"
#include "transport/soft/preload/soft_objects.h"

namespace verbena::soft {

extern "C" {

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes) {
  return VerbsOf(pd->context).create_srq(pd, attributes);
}

int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attributes, int mask) {
  return VerbsOf(srq->context).modify_srq(srq, attributes, mask);
}

int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attributes) {
  return VerbsOf(srq->context).query_srq(srq, attributes);
}

int ibv_destroy_srq(ibv_srq* srq) {
  return VerbsOf(srq->context).destroy_srq(srq);
}

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  return VerbsOf(pd->context).create_qp(pd, attributes);
}

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  return VerbsOf(qp->context).qp_to_qp_ex(qp);
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  return VerbsOf(qp->context).modify_qp(qp, attributes, mask);
}

int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask,
                 ibv_qp_init_attr* init_attributes) {
  return VerbsOf(qp->context).query_qp(qp, attributes, mask, init_attributes);
}

int ibv_query_qp_data_in_order(ibv_qp* qp, ibv_wr_opcode opcode,
                               uint32_t flags) {
  // The payload is copied by memcpy, which promises no order.
  if (IsSoft(qp->context)) return 0;
  static const decltype(&ibv_query_qp_data_in_order) next =
      NextDefinition("ibv_query_qp_data_in_order");
  return next(qp, opcode, flags);
}

int ibv_destroy_qp(ibv_qp* qp) { return VerbsOf(qp->context).destroy_qp(qp); }

int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) {
  if (IsSoft(qp->context)) return errno = EOPNOTSUPP;
  static const decltype(&ibv_set_ece) next = NextDefinition("ibv_set_ece");
  return next(qp, ece);
}

int ibv_query_ece(ibv_qp* qp, ibv_ece* ece) {
  if (IsSoft(qp->context)) return errno = EOPNOTSUPP;
  static const decltype(&ibv_query_ece) next = NextDefinition("ibv_query_ece");
  return next(qp, ece);
}

}  // extern "C"

}  // namespace verbena::soft
