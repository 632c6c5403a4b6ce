// Draws what one run has found, as SVG.

#ifndef VERBENA_TOOLS_RPC_BENCH_PLOT_H_
#define VERBENA_TOOLS_RPC_BENCH_PLOT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "tools/rpc_bench/report.h"

namespace verbena::bench {

// A size above which calls go another way.
struct Threshold {
  uint64_t bytes;
  std::string name;  // "rendezvous".
};

// Three charts, on logarithmic scales, with a curve for each layer: latency by
// percentile, of the smallest size with the fewest outstanding; median latency
// by size, with the fewest; bandwidth by size, with the most. The last two have
// the thresholds marked.
std::string Plot(const Report& report, absl::Span<const Threshold> thresholds);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_PLOT_H_
