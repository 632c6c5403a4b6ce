// What rpc_bench prints of its results.

#ifndef VERBENA_TOOLS_RPC_BENCH_REPORT_H_
#define VERBENA_TOOLS_RPC_BENCH_REPORT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tools/rpc_bench/workload.h"

namespace verbena::bench {

// A table for people, a line a size: latencies with the fewest outstanding,
// rates with the most. Errors follow, each with the first Status of its case.
// REQUIRES: the results of a size stand together, fewest outstanding first, and
// every size was measured with the same numbers outstanding.
std::string Table(absl::string_view device, absl::Span<const Result> results);

// One JSON object on a line, with its newline. A percentile that does not exist
// because no call succeeded is null.
std::string Json(absl::string_view device, absl::Span<const Result> results);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_REPORT_H_
