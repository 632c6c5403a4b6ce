// Counts what this process asks of RDMA devices, which is what a call costs on
// a real one, whatever the processors are.

#ifndef VERBENA_TOOLS_RPC_BENCH_VERBS_COUNT_H_
#define VERBENA_TOOLS_RPC_BENCH_VERBS_COUNT_H_

#include <cstdint>

#include "tools/rpc_bench/report.pb.h"
#include "transport/verbs/provider.h"

namespace verbena::bench {

// Puts counting functions in the place of the five data-path verbs of
// `context`, for as long as the process lives: nobody who does not ask for it
// pays. A second time does nothing.
//
// Not thread-safe, and the verbs read what this writes without a lock: call it
// before anything uses the context.
void CountVerbs(ibv_context* context);

// All that was counted so far, and how often threads of this process went to
// sleep. Any thread.
VerbsCost VerbsCounted();

// What one of `calls` took between the two.
VerbsCost VerbsPerCall(const VerbsCost& before, const VerbsCost& after,
                       uint64_t calls);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_VERBS_COUNT_H_
