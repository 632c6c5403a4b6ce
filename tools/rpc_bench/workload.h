// What is measured, whatever layer it is measured at.

#ifndef VERBENA_TOOLS_RPC_BENCH_WORKLOAD_H_
#define VERBENA_TOOLS_RPC_BENCH_WORKLOAD_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tools/rpc_bench/latency_histogram.h"

namespace verbena::bench {

// One measurement to make.
struct Case {
  uint64_t size_bytes = 0;
  int outstanding = 1;
};

// What happened in the measured time of one case.
struct Sample {
  LatencyHistogram latencies;  // Of what succeeded.
  uint64_t errors = 0;
  absl::Status first_error;  // OK while `errors` is 0.
  absl::Duration elapsed;    // From the first start to the last end counted.
};

// One result of a case, in the units of the reports.
struct Result {
  std::string layer;
  uint64_t size_bytes = 0;
  int outstanding = 0;
  uint64_t successes = 0;
  double p50_us = 0;  // The three are 0 if there was no success.
  double p99_us = 0;
  double p999_us = 0;
  double calls_per_s = 0;
  double bytes_per_s = 0;
  uint64_t errors = 0;
  absl::Status first_error;
};

// A way to send bytes to a server and get them back. For one thread.
class Layer {
 public:
  virtual ~Layer() = default;

  // As in the reports: "rpc".
  virtual absl::string_view name() const = 0;

  // Echoes payloads of `size_bytes`, `outstanding` at a time, until `duration`
  // has passed after a warm-up, and checks what comes back. An echo that fails,
  // or brings back something else, is an error in the sample.
  virtual Sample Run(const Case& measured, absl::Duration duration) = 0;
};

// Every size with every number outstanding, size by size.
std::vector<Case> Cases(absl::Span<const uint64_t> sizes_bytes,
                        absl::Span<const int> outstanding);

// Turns counts into the rates and percentiles of a report.
Result Summarize(absl::string_view layer, const Case& measured,
                 const Sample& sample);

// Runs the cases one after another. `on_start` is told of each before it runs,
// with its index.
std::vector<Result> RunCases(
    Layer& layer, absl::Span<const Case> cases, absl::Duration duration,
    absl::FunctionRef<void(size_t index, const Case&)> on_start);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_WORKLOAD_H_
