// What rpc_bench makes of its results: a table and charts for people, JSON and
// CSV for programs.

#ifndef VERBENA_TOOLS_RPC_BENCH_REPORT_H_
#define VERBENA_TOOLS_RPC_BENCH_REPORT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tools/rpc_bench/report.pb.h"

namespace verbena::bench {

// The result of such a case, or one without a layer.
const Report::Result& FindResult(const Report& report, absl::string_view layer,
                                 absl::string_view op, uint32_t size_bytes,
                                 uint32_t outstanding);

// "poll" or "sleep between messages".
absl::string_view HowSidesWait(const Report& report);

// Fills in what the results are relative to those of the verbs layer, as far as
// that was measured.
void AddRatios(Report& report);

// Tables: a line for each size and layer, latencies with the fewest outstanding
// and rates with the most; then the streams, what the calls cost in verbs, what
// failed, and the counters.
std::string Table(const Report& report);

// One JSON object on a line, with its newline. What is absent is null, so that
// every field is there.
std::string Json(const Report& report);

// A line of names, then a line for each result, with the fields of the JSON.
std::string Csv(const Report& report);

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

#endif  // VERBENA_TOOLS_RPC_BENCH_REPORT_H_
