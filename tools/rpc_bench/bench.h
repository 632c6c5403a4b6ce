// A run of rpc_bench, as a client or as a server.

#ifndef VERBENA_TOOLS_RPC_BENCH_BENCH_H_
#define VERBENA_TOOLS_RPC_BENCH_BENCH_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/rpc_bench/flags.h"
#include "tools/rpc_bench/report.pb.h"

namespace verbena::bench {

// Measures the server that `options` name, or starts one. Each case is measured
// at all layers before the next case, so that results to compare are of nearly
// the same time.
absl::StatusOr<Report> Measure(const Options& options);

// Measures the processor time that idle connections use, and returns a line of
// text about it.
absl::StatusOr<std::string> MeasureIdle(const Options& options);

// Serves until SIGINT or SIGTERM, pinned to the server's processor if the
// options name one. Serves verbena.bench.Echo at `address`, "host:port". The
// other layers have free ports of that host, which Echo.Describe() returns. As
// soon as it serves, prints its listening line to standard output: see
// tools/child/server_child.h.
//
// Blocks the two signals for good. Call it from main(), before any thread
// starts.
absl::Status Serve(const std::string& address, const Options& options);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_BENCH_H_
