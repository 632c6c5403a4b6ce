// What rpc_bench prints of its results: a table for people, JSON and CSV for
// programs.

#ifndef VERBENA_TOOLS_RPC_BENCH_REPORT_H_
#define VERBENA_TOOLS_RPC_BENCH_REPORT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "tools/rpc_bench/report.pb.h"

namespace verbena::bench {

// The result of such a case, or null.
const Report::Result* FindResult(const Report& report, absl::string_view layer,
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

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_REPORT_H_
