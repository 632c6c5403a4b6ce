// Echoes, or messages one way, by one stream.

#ifndef VERBENA_TOOLS_RPC_BENCH_STREAM_PIPE_H_
#define VERBENA_TOOLS_RPC_BENCH_STREAM_PIPE_H_

#include "absl/time/time.h"
#include "rpc/channel.h"
#include "tools/load/workload.h"
#include "tools/rpc_bench/echo.verbena.h"

namespace verbena::bench {

// Runs a case whose kind is not unary, in a closed loop, by the blocking
// interface on this thread. If messages go one way, the latency is the time for
// reading or writing as many as may be outstanding. `stub` uses `channel`.
Sample RunStream(Channel& channel, Echo::Stub& stub, const Case& measured,
                 absl::Duration duration);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_STREAM_PIPE_H_
