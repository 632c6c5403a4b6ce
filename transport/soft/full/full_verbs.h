// All verbs of the software device: those that RPC needs, and those that only
// other programs call.

#ifndef VERBENA_TRANSPORT_SOFT_FULL_FULL_VERBS_H_
#define VERBENA_TRANSPORT_SOFT_FULL_FULL_VERBS_H_

#include <infiniband/verbs.h>

#include "transport/verbs/verbs_ops.h"

namespace verbena::soft {

class SoftDevice;

// The whole table. Its contexts have all extended verbs.
transport::VerbsOps FullVerbsOps();

// As OpenContext(), with all verbs.
ibv_context* OpenFullContext(SoftDevice& device);

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_FULL_FULL_VERBS_H_
