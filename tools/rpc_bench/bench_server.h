// The server that rpc_bench measures.

#ifndef VERBENA_TOOLS_RPC_BENCH_BENCH_SERVER_H_
#define VERBENA_TOOLS_RPC_BENCH_BENCH_SERVER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace verbena::bench {

struct BenchServerOptions {
  std::string address;  // "host:port" of the Echo service.
  std::string device;   // See ServerBuilder::SetDevice(); empty: its default.
  bool events = false;  // Sleep as soon as there is nothing to do.
  bool verbs_count = false;          // Count what is asked of the devices.
  uint32_t continued_max_bytes = 0;  // See EndpointOptions.
  int pinned_to = -1;                // What Describe() says of it.
};

// Serves verbena.bench.Echo at the address, and the other layers at free ports
// of it that Echo.Describe() tells, until SIGINT or SIGTERM. Prints its
// listening line (see server_process.h) to standard output as soon as it
// serves.
//
// Blocks the two signals for good. Call it from main(), before any thread
// starts.
absl::Status Serve(const BenchServerOptions& options);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_BENCH_SERVER_H_
