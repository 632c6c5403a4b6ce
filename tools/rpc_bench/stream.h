// Cases of the rpc layer whose kind is not unary.

#ifndef VERBENA_TOOLS_RPC_BENCH_STREAM_H_
#define VERBENA_TOOLS_RPC_BENCH_STREAM_H_

#include "absl/time/time.h"
#include "rpc/channel.h"
#include "tools/load/workload.h"
#include "tools/rpc_bench/echo.verbena.h"

namespace verbena::bench {

// Runs a case by one stream, in a closed loop, by the blocking interface on
// this thread. If messages go one way, the latency is the time for reading or
// writing as many as may be outstanding. `stub` uses `channel`.
Sample RunStream(Channel& channel, Echo::Stub& stub, const Case& measured,
                 absl::Duration duration);

// Runs a case by Case::streams streams of one connection at once, by reactors.
// Each stream has one message under way: an echo, or a message that is being
// read or written. The server's handlers must not each need a thread.
Sample RunStreamCrowd(Echo::Stub& stub, const Case& measured,
                      absl::Duration duration);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_STREAM_H_
