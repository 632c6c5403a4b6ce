// The connection manager of the software device.

#ifndef VERBENA_TRANSPORT_SOFT_CM_OPS_H_
#define VERBENA_TRANSPORT_SOFT_CM_OPS_H_

#include "transport/verbs/cm_ops.h"

namespace verbena::soft {

// The whole table: every entry is filled. RDMA_PS_TCP only, and between
// processes of one network namespace only: see cm_address.h.
transport::CmOps SoftCmOps();

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CM_OPS_H_
