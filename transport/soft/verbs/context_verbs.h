// The verbs that libibverbs calls through a context, and not by their names.

#ifndef VERBENA_TRANSPORT_SOFT_VERBS_CONTEXT_VERBS_H_
#define VERBENA_TRANSPORT_SOFT_VERBS_CONTEXT_VERBS_H_

#include <infiniband/verbs.h>

namespace verbena::soft {

class SoftDevice;

// A new context of `device` with all its verbs, owned by the caller, who closes
// it with the verb close_device; null and errno when out of descriptors.
ibv_context* OpenContext(SoftDevice& device);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_VERBS_CONTEXT_VERBS_H_
