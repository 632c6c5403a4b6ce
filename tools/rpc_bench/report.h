// The output of rpc_bench: for people a table and charts, for programs JSON and
// CSV in files or on standard output.

#ifndef VERBENA_TOOLS_RPC_BENCH_REPORT_H_
#define VERBENA_TOOLS_RPC_BENCH_REPORT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tools/rpc_bench/report.pb.h"

namespace verbena::bench {

// Returns the result of the case, or a Result without a layer if there is none.
const Report::Result& FindResult(const Report& report, absl::string_view layer,
                                 absl::string_view op, uint32_t size_bytes,
                                 uint32_t outstanding);

// "poll" or "sleep between messages".
absl::string_view HowSidesWait(const Report& report);

// Fills in the ratios of all results to those of the verbs layer, if the verbs
// layer was measured.
void AddRatios(Report& report);

// Returns tables for people. The first has a line for each size and layer, with
// latencies for the fewest outstanding calls, and rates for the most. Then come
// the streams, the calls' costs in verbs, the failures, and the counters.
std::string Table(const Report& report);

// Returns a JSON object on a line, with its newline. Every field is there, and
// is null if it is absent in the report.
std::string Json(const Report& report);

// Returns a line of names, then a line for each result, with the JSON's fields.
std::string Csv(const Report& report);

// A size above which messages travel by another mechanism.
struct Threshold {
  uint64_t bytes;
  std::string name;  // "rendezvous".
};

// Returns commands for gnuplot, which draw up to three charts into the SVG file
// `output`, on logarithmic scales, with a curve for each layer:
//
//   - Latency by percentile, for the smallest size and the fewest outstanding.
//   - Median latency by size, for the fewest outstanding.
//   - Bandwidth by size, for the most outstanding.
//
// The last two show the thresholds. A chart without a point is left out.
std::string PlotScript(const Report& report,
                       absl::Span<const Threshold> thresholds,
                       const std::string& output);

// If gnuplot is missing, fails with FAILED_PRECONDITION and how to install it.
absl::Status CheckGnuplot();

// Has gnuplot draw `script`. Fails with its error messages.
absl::Status RunGnuplot(const std::string& script);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_REPORT_H_
