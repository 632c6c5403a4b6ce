// Load of blocking calls, by callers that each have a thread of their own.

#ifndef VERBENA_TOOLS_LOAD_CALLERS_H_
#define VERBENA_TOOLS_LOAD_CALLERS_H_

#include <functional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tools/load/workload.h"

namespace verbena::bench {

// Makes a blocking call of one caller, and returns its status.
using BlockingCall = std::function<absl::Status()>;

// Runs each of `callers` on its own thread, back to back or at the rate of the
// case, which is that of all callers together. Calls `at_start` at the end of
// the warm-up, while the callers go on, and `at_end` when all have returned. A
// caller ends with its first error.
//
// Callers sleep until a call is due. The latency counts from its actual begin,
// because a caller that was woken late is not the server's fault. If several
// calls became due during one call, only the last of them is made, at once.
Sample RunCallers(const std::vector<BlockingCall>& callers,
                  const Case& measured, absl::Duration duration,
                  absl::FunctionRef<void()> at_start,
                  absl::FunctionRef<void()> at_end);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_LOAD_CALLERS_H_
