// The connection manager of the software device.

#ifndef VERBENA_TRANSPORT_SOFT_CM_CM_OPS_H_
#define VERBENA_TRANSPORT_SOFT_CM_CM_OPS_H_

#include <rdma/rdma_cma.h>
#include <sys/types.h>

#include "transport/verbs/cm_ops.h"

namespace verbena::soft {

// The table. Its identifiers are of the port space TCP, and connect to
// processes of this host (cm_address.h) and of others (network.h). Those of
// full/full_provider.h may be of the port space UDP too.
transport::CmOps SoftCmOps();

// See transport::Provider.
bool PeerUser(rdma_cm_id* id, uid_t* user);

// These are not in that table: the library needs none of them. Each has the
// behaviour of the librdmacm function of its name.
int InitQpAttr(rdma_cm_id* id, ibv_qp_attr* attributes, int* mask);
int Establish(rdma_cm_id* id);

// Returns an answer of the connection manager as librdmacm does: 0, or -1 with
// `error` as errno.
int CmResult(int error);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CM_CM_OPS_H_
