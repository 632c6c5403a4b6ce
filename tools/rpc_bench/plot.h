// Draws what one run has found, by gnuplot.

#ifndef VERBENA_TOOLS_RPC_BENCH_PLOT_H_
#define VERBENA_TOOLS_RPC_BENCH_PLOT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tools/rpc_bench/report.pb.h"

namespace verbena::bench {

// A size above which calls go another way.
struct Threshold {
  uint64_t bytes;
  std::string name;  // "rendezvous".
};

// What gnuplot reads to draw up to three charts into the SVG file `output`, on
// logarithmic scales, with a curve for each layer: latency by percentile, of
// the smallest size with the fewest outstanding; median latency by size, with
// the fewest; bandwidth by size, with the most. The last two have the
// thresholds marked. A chart without a point is left out.
std::string PlotScript(const Report& report,
                       absl::Span<const Threshold> thresholds,
                       const std::string& output);

// FAILED_PRECONDITION with how to install gnuplot, if it is missing.
absl::Status CheckGnuplot();

// Has gnuplot draw `script`; what it complains about goes to standard error.
absl::Status RunGnuplot(const std::string& script);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_PLOT_H_
