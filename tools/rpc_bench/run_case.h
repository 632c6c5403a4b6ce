// Runs a case at a layer, and turns what was counted into a row of the report.

#ifndef VERBENA_TOOLS_RPC_BENCH_RUN_CASE_H_
#define VERBENA_TOOLS_RPC_BENCH_RUN_CASE_H_

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tools/load/workload.h"
#include "tools/rpc_bench/report.pb.h"

namespace verbena::bench {

// The resources that client and server have used so far.
struct Usage {
  absl::Duration cpu;  // Processor time of both.
  VerbsCost client_verbs;
  VerbsCost server_verbs;
  bool verbs_are_counted = false;
};

// Turns counts into the rates and percentiles of a report.
Report::Result Summarize(absl::string_view layer, const Case& measured,
                         const Sample& sample);

// Prepares, runs and releases a case. If it cannot begin, the result has one
// error. `usage` is called before and after the run, and fails if the usage is
// not known.
Report::Result RunCase(Layer& layer, const Case& measured,
                       absl::Duration duration,
                       absl::FunctionRef<absl::StatusOr<Usage>()> usage);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_RUN_CASE_H_
