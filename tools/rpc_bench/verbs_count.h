// Counts the requests of this process to RDMA devices. The counts are what a
// call costs on a real device, whatever the processors are.

#ifndef VERBENA_TOOLS_RPC_BENCH_VERBS_COUNT_H_
#define VERBENA_TOOLS_RPC_BENCH_VERBS_COUNT_H_

#include <cstdint>

#include "tools/rpc_bench/report.pb.h"
#include "transport/verbs/provider.h"

namespace verbena::bench {

// Puts counting functions in the place of the five data-path verbs of
// `context`, for as long as the process lives. Other contexts are not slowed
// down. A second call with the same context does nothing.
//
// Not thread-safe. The verbs read without a lock what this function writes, so
// call it before anything uses the context.
void CountVerbs(ibv_context* context);

// Returns all counts so far, with the number of times that threads of this
// process went to sleep. Thread-safe.
VerbsCost VerbsCounted();

// Returns the difference of `after` and `before`, divided by `calls`.
VerbsCost VerbsPerCall(const VerbsCost& before, const VerbsCost& after,
                       uint64_t calls);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_VERBS_COUNT_H_
