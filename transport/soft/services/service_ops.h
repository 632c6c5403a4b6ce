// The functions of librdmacm for multicast groups.

#ifndef VERBENA_TRANSPORT_SOFT_SERVICES_SERVICE_OPS_H_
#define VERBENA_TRANSPORT_SOFT_SERVICES_SERVICE_OPS_H_

#include <rdma/rdma_cma.h>

namespace verbena::soft {

// Each has the behaviour of the librdmacm function of its name.
int JoinMulticast(rdma_cm_id* id, sockaddr* group, void* context);
int JoinMulticastEx(rdma_cm_id* id, rdma_cm_join_mc_attr_ex* attributes,
                    void* context);
int LeaveMulticast(rdma_cm_id* id, sockaddr* group);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_SERVICES_SERVICE_OPS_H_
