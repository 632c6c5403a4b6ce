// The control verbs that only datagrams need, beside those of VerbsOps.
//
// Each has the behaviour of the libibverbs function of its name, whose man page
// is its documentation.

#ifndef VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_VERBS_H_
#define VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_VERBS_H_

#include <infiniband/verbs.h>

#include <cstdint>

namespace verbena::soft {

// The verb create_qp. REQUIRES: the type is UD.
ibv_qp* CreateDatagramQp(ibv_pd* pd, ibv_qp_init_attr* attributes);

ibv_ah* CreateAh(ibv_pd* pd, ibv_ah_attr* attributes);
int DestroyAh(ibv_ah* ah);

// These two make the way back to the sender of a datagram from its completion
// and the first 40 bytes of its buffer.
int InitAhFromWc(ibv_context* context, uint8_t port, ibv_wc* wc, ibv_grh* grh,
                 ibv_ah_attr* attributes);
ibv_ah* CreateAhFromWc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, uint8_t port);

// Attaches on every interface that has a GID. `lid` is ignored.
int AttachMcast(ibv_qp* qp, const ibv_gid* group, uint16_t lid);
int DetachMcast(ibv_qp* qp, const ibv_gid* group, uint16_t lid);

// Attaches on one interface.
int AttachMcastOn(ibv_qp* qp, const ibv_gid* group, uint32_t interface_index);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_DATAGRAM_DATAGRAM_VERBS_H_
