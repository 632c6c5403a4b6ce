// The verbs that make completion queues and queue pairs.

#ifndef VERBENA_TRANSPORT_SOFT_VERBS_CREATE_QUEUES_H_
#define VERBENA_TRANSPORT_SOFT_VERBS_CREATE_QUEUES_H_

#include <infiniband/verbs.h>

#include <memory>

#include "transport/soft/queues/queue_pair.h"

namespace verbena::soft {

// The verb create_cq.
ibv_cq* CreateCq(ibv_context* context, int cqe, void* cq_context,
                 ibv_comp_channel* channel, int comp_vector);

// The verb create_qp for queue pairs of type RC that the connection manager
// connects; any other type is refused with EOPNOTSUPP. Writes the capacities
// that were granted into the attributes.
ibv_qp* CreateQp(ibv_pd* pd, ibv_qp_init_attr* attributes);

// Does as CreateQp() for a type whose queue pairs `make` makes.
using MakeQueuePair =
    std::unique_ptr<QueuePair> (*)(SoftDevice& device, ProtectionDomain& domain,
                                   const ibv_qp_init_attr& attributes);
ibv_qp* CreateQpBy(MakeQueuePair make, ibv_pd* pd,
                   ibv_qp_init_attr* attributes);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_VERBS_CREATE_QUEUES_H_
