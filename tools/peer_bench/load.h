// The load that every peer gets: callers that call back to back, or by the
// clock.

#ifndef VERBENA_TOOLS_PEER_BENCH_LOAD_H_
#define VERBENA_TOOLS_PEER_BENCH_LOAD_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/rpc_bench/latency_histogram.h"

namespace verbena::peers {

// Makes a blocking call of one caller, and returns its status.
using Echo = std::function<absl::Status()>;

struct LoadOptions {
  // Calls a second that all callers together begin; 0 for back to back.
  double rate = 0;

  // Calls that begin in this time are made and not counted.
  absl::Duration warm_up = absl::Milliseconds(300);

  // Calls that begin in this time, after `warm_up`, are counted.
  absl::Duration duration = absl::Seconds(1);
};

struct LoadResult {
  // How long each counted call took, from its actual begin. A caller that was
  // woken late is not the peer's fault.
  bench::LatencyHistogram latency;

  // Calls that were due before the caller's previous call had ended. If several
  // were due, only the last of them is made, at once.
  uint64_t late = 0;

  // How many counted calls each caller has made, in ascending order.
  std::vector<uint64_t> calls;

  // From the end of the warm-up to the end of the last call.
  double seconds = 0;
};

// Runs each of `callers` on its own thread. Calls `at_start` at the end of the
// warm-up, while the callers go on, and `at_end` when all have returned. Fails
// with the error of a call.
absl::StatusOr<LoadResult> RunLoad(const LoadOptions& options,
                                   const std::vector<Echo>& callers,
                                   absl::FunctionRef<void()> at_start,
                                   absl::FunctionRef<void()> at_end);

}  // namespace verbena::peers

#endif  // VERBENA_TOOLS_PEER_BENCH_LOAD_H_
