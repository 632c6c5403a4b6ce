// Messages by many streams of one connection, at once.

#ifndef VERBENA_TOOLS_RPC_BENCH_STREAM_CROWD_H_
#define VERBENA_TOOLS_RPC_BENCH_STREAM_CROWD_H_

#include "absl/time/time.h"
#include "tools/rpc_bench/echo.verbena.h"
#include "tools/rpc_bench/workload.h"

namespace verbena::bench {

// Runs a case that has streams, by reactors, with one message of each stream
// under way; of messages one way, being read or written. The handlers must not
// need a thread each.
Sample RunStreamCrowd(Echo::Stub& stub, const Case& measured,
                      absl::Duration duration);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_STREAM_CROWD_H_
