// Messages by many streams of one connection, at once.

#ifndef VERBENA_TOOLS_RPC_BENCH_STREAM_CROWD_H_
#define VERBENA_TOOLS_RPC_BENCH_STREAM_CROWD_H_

#include "absl/time/time.h"
#include "tools/load/workload.h"
#include "tools/rpc_bench/echo.verbena.h"

namespace verbena::bench {

// Runs a case that has streams, by reactors. Each stream has one message under
// way: an echo, or a message that is being read or written. The server's
// handlers must not each need a thread.
Sample RunStreamCrowd(Echo::Stub& stub, const Case& measured,
                      absl::Duration duration);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_STREAM_CROWD_H_
