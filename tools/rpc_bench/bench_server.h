// The server that rpc_bench measures.

#ifndef VERBENA_TOOLS_RPC_BENCH_BENCH_SERVER_H_
#define VERBENA_TOOLS_RPC_BENCH_BENCH_SERVER_H_

#include <string>

#include "absl/status/status.h"
#include "tools/rpc_bench/options.h"

namespace verbena::bench {

// Serves verbena.bench.Echo at `address`, "host:port", and the other layers at
// free ports of it that Echo.Describe() tells, until SIGINT or SIGTERM, pinned
// to the server's processor if the options name one. Prints its listening line
// (see tools/child/server_child.h) to standard output as soon as it serves.
//
// Blocks the two signals for good. Call it from main(), before any thread
// starts.
absl::Status Serve(const std::string& address, const Options& options);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_BENCH_SERVER_H_
