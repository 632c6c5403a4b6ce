// The connection manager of the software device.

#ifndef VERBENA_TRANSPORT_SOFT_CM_CM_OPS_H_
#define VERBENA_TRANSPORT_SOFT_CM_CM_OPS_H_

#include <rdma/rdma_cma.h>
#include <sys/types.h>

#include "transport/verbs/cm_ops.h"

namespace verbena::soft {

// The whole table: every entry is filled. It serves the port spaces TCP and
// UDP, and connects to processes of this host (cm_address.h) and of others
// (network.h).
transport::CmOps SoftCmOps();

// See transport::Provider.
bool PeerUser(rdma_cm_id* id, uid_t* user);

// These are not in that table: the library needs none of them. Each has the
// behaviour of the librdmacm function of its name.
int JoinMulticast(rdma_cm_id* id, sockaddr* group, void* context);
int JoinMulticastEx(rdma_cm_id* id, rdma_cm_join_mc_attr_ex* attributes,
                    void* context);
int LeaveMulticast(rdma_cm_id* id, sockaddr* group);
int InitQpAttr(rdma_cm_id* id, ibv_qp_attr* attributes, int* mask);
int Establish(rdma_cm_id* id);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CM_CM_OPS_H_
