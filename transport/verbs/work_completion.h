// The statuses of work completions, in words.

#ifndef VERBENA_TRANSPORT_VERBS_WORK_COMPLETION_H_
#define VERBENA_TRANSPORT_VERBS_WORK_COMPLETION_H_

#include <infiniband/verbs.h>

namespace verbena::transport {

// Returns the meaning of `status` for the connection and, if there is a usual
// cause, that cause: "transport retry counter exceeded: the peer is gone or
// unreachable". Static storage; never null.
const char* WorkCompletionText(ibv_wc_status status);

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_VERBS_WORK_COMPLETION_H_
