// One run of rpc_bench, as a client or as a server.

#ifndef VERBENA_TOOLS_RPC_BENCH_BENCH_H_
#define VERBENA_TOOLS_RPC_BENCH_BENCH_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/rpc_bench/flags.h"
#include "tools/rpc_bench/report.pb.h"

namespace verbena::bench {

// Measures the server that `options` name, or one that this starts: each case
// at each layer before the next case, so that what is compared was measured at
// nearly the same time.
absl::StatusOr<Report> Measure(const Options& options);

// Measures what the idle connections take of processors; a line of text.
absl::StatusOr<std::string> MeasureIdle(const Options& options);

// Serves verbena.bench.Echo at `address`, "host:port", and the other layers at
// free ports of it that Echo.Describe() tells, until SIGINT or SIGTERM, pinned
// to the server's processor if the options name one. Prints its listening line
// (see tools/child/server_child.h) to standard output as soon as it serves.
//
// Blocks the two signals for good. Call it from main(), before any thread
// starts.
absl::Status Serve(const std::string& address, const Options& options);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_BENCH_H_
