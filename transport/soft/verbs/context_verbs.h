// The verbs that libibverbs calls through a context, and not by their names.

#ifndef VERBENA_TRANSPORT_SOFT_VERBS_CONTEXT_VERBS_H_
#define VERBENA_TRANSPORT_SOFT_VERBS_CONTEXT_VERBS_H_

#include <infiniband/verbs.h>

namespace verbena::soft {

class SoftDevice;

// Makes a context of `device` with the verbs that RPC needs. It is owned by the
// caller, who closes it with the verb close_device. Returns null, with errno,
// when the process is out of descriptors.
ibv_context* OpenContext(SoftDevice& device);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_VERBS_CONTEXT_VERBS_H_
