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

// One blocking call of one caller.
using Echo = std::function<absl::Status()>;

struct LoadOptions {
  // Calls a second that all callers together begin; 0 for back to back.
  double rate = 0;

  // Calls that begin in this time are made and not counted.
  absl::Duration warm_up = absl::Milliseconds(300);

  // Calls are counted that begin in the time after that.
  absl::Duration duration = absl::Seconds(1);
};

struct LoadResult {
  // How long each call took, from when it was really begun: a caller that was
  // woken late is not the peer's fault.
  bench::LatencyHistogram latency;

  // Calls that were due before the caller's previous one had ended, because
  // that took long or had begun late. Such a call is begun at once; those that
  // were due before it are left out.
  uint64_t late = 0;

  // How many calls each caller has made, in ascending order.
  std::vector<uint64_t> calls;

  // From the end of the warm-up to the end of the last call.
  double seconds = 0;
};

// Runs each of `callers` on a thread of its own. Calls `at_start` at the end of
// the warm-up, while the callers go on, and `at_end` when all have returned.
// Fails as the first call that fails.
absl::StatusOr<LoadResult> RunLoad(const LoadOptions& options,
                                   const std::vector<Echo>& callers,
                                   absl::FunctionRef<void()> at_start,
                                   absl::FunctionRef<void()> at_end);

}  // namespace verbena::peers

#endif  // VERBENA_TOOLS_PEER_BENCH_LOAD_H_
