// The control verbs of the software device.

#ifndef VERBENA_TRANSPORT_SOFT_VERBS_VERBS_TABLE_H_
#define VERBENA_TRANSPORT_SOFT_VERBS_VERBS_TABLE_H_

#include "transport/verbs/verbs_ops.h"

namespace verbena::soft {

// The whole table: every entry is filled.
transport::VerbsOps SoftVerbsOps();

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_VERBS_VERBS_TABLE_H_
