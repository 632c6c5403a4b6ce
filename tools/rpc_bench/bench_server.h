// The server that rpc_bench measures.

#ifndef VERBENA_TOOLS_RPC_BENCH_BENCH_SERVER_H_
#define VERBENA_TOOLS_RPC_BENCH_BENCH_SERVER_H_

#include <string>

#include "absl/status/status.h"

namespace verbena::bench {

// Serves verbena.bench.Echo at `address` ("host:port") until SIGINT or SIGTERM.
// Prints its listening line (see server_process.h) to standard output as soon
// as it serves. `device` as in ServerBuilder::SetDevice(); empty for its
// default.
//
// Blocks the two signals for good. Call it from main(), before any thread
// starts.
absl::Status Serve(const std::string& address, const std::string& device);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_BENCH_SERVER_H_
