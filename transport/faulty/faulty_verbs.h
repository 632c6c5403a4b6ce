// The wrapped verbs of a faulty provider.

#ifndef VERBENA_TRANSPORT_FAULTY_FAULTY_VERBS_H_
#define VERBENA_TRANSPORT_FAULTY_FAULTY_VERBS_H_

#include <infiniband/verbs.h>

#include "transport/verbs/verbs_ops.h"

namespace verbena::transport {

// `base` with every entry that a plan can name wrapped.
VerbsOps FaultyVerbs(const VerbsOps& base);

// Leads the data path of `context` through the plan. Does nothing if it does so
// already, or if `context` is null.
void PatchDataPath(ibv_context* context);

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_FAULTY_FAULTY_VERBS_H_
