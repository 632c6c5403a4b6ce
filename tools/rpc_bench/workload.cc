#include "tools/rpc_bench/workload.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace verbena::bench {

std::vector<Case> Cases(absl::Span<const uint64_t> sizes_bytes,
                        absl::Span<const int> outstanding) {
  std::vector<Case> cases;
  for (uint64_t size : sizes_bytes) {
    for (int depth : outstanding) {
      cases.push_back({.size_bytes = size, .outstanding = depth});
    }
  }
  return cases;
}

Result Summarize(absl::string_view layer, const Case& measured,
                 const Sample& sample) {
  Result result;
  result.layer = std::string(layer);
  result.size_bytes = measured.size_bytes;
  result.outstanding = measured.outstanding;
  result.successes = sample.latencies.count();
  result.p50_us = sample.latencies.Quantile(0.5) / 1e3;
  result.p99_us = sample.latencies.Quantile(0.99) / 1e3;
  result.p999_us = sample.latencies.Quantile(0.999) / 1e3;
  const double seconds = absl::ToDoubleSeconds(sample.elapsed);
  if (seconds > 0) {
    result.calls_per_s = result.successes / seconds;
    result.bytes_per_s = result.calls_per_s * measured.size_bytes;
  }
  result.errors = sample.errors;
  result.first_error = sample.first_error;
  return result;
}

std::vector<Result> RunCases(
    Layer& layer, absl::Span<const Case> cases, absl::Duration duration,
    absl::FunctionRef<void(size_t index, const Case&)> on_start) {
  std::vector<Result> results;
  for (size_t i = 0; i < cases.size(); ++i) {
    on_start(i, cases[i]);
    results.push_back(
        Summarize(layer.name(), cases[i], layer.Run(cases[i], duration)));
  }
  return results;
}

}  // namespace verbena::bench
