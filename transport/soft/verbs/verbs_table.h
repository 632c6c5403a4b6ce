// The control verbs of the software device that RPC needs.

#ifndef VERBENA_TRANSPORT_SOFT_VERBS_VERBS_TABLE_H_
#define VERBENA_TRANSPORT_SOFT_VERBS_VERBS_TABLE_H_

#include "transport/verbs/verbs_ops.h"

namespace verbena::soft {

// The table. The entries of verbs that RPC does not need fail with EOPNOTSUPP;
// full/full_verbs.h has all of them.
transport::VerbsOps SoftVerbsOps();

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_VERBS_VERBS_TABLE_H_
