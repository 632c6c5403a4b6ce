#include "tools/rpc_bench/workload.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace verbena::bench {
namespace {

Result RunCase(Layer& layer, const Case& measured, absl::Duration duration,
               absl::FunctionRef<absl::StatusOr<absl::Duration>()> cpu_used) {
  const absl::Status ready = layer.Prepare(measured);
  if (!ready.ok()) {
    layer.Release();
    return Summarize(layer.name(), measured, FailedSample(ready));
  }
  const absl::StatusOr<absl::Duration> before = cpu_used();
  const Sample sample = layer.Run(measured, duration);
  const absl::StatusOr<absl::Duration> after = cpu_used();
  layer.Release();
  Result result = Summarize(layer.name(), measured, sample);
  if (before.ok() && after.ok() && sample.ended > 0) {
    result.cpu_us_per_call =
        absl::ToDoubleMicroseconds(*after - *before) / sample.ended;
  }
  return result;
}

}  // namespace

absl::string_view OpName(Op op) {
  switch (op) {
    case Op::kEcho:
      return "echo";
    case Op::kSend:
      return "send";
    case Op::kWrite:
      return "write";
    case Op::kRead:
      return "read";
  }
  return "unknown";
}

std::vector<Case> Cases(absl::Span<const uint64_t> sizes_bytes,
                        absl::Span<const int> outstanding, const Case& common) {
  std::vector<Case> cases;
  for (uint64_t size : sizes_bytes) {
    for (int depth : outstanding) {
      cases.push_back(common);
      cases.back().size_bytes = size;
      cases.back().outstanding = depth;
    }
  }
  return cases;
}

Result Summarize(absl::string_view layer, const Case& measured,
                 const Sample& sample) {
  Result result;
  result.layer = std::string(layer);
  result.measured = measured;
  result.successes = sample.latencies.count();
  result.p50_us = sample.latencies.Quantile(0.5) / 1e3;
  result.p90_us = sample.latencies.Quantile(0.9) / 1e3;
  result.p99_us = sample.latencies.Quantile(0.99) / 1e3;
  result.p999_us = sample.latencies.Quantile(0.999) / 1e3;
  result.max_us = sample.latencies.max() / 1e3;
  result.calls_per_s = sample.calls_per_s;
  result.bytes_per_s = result.calls_per_s * measured.size_bytes;
  result.errors = sample.errors;
  result.first_error = sample.first_error;
  result.unstarted = sample.unstarted;
  result.latencies = sample.latencies;
  return result;
}

Sample FailedSample(const absl::Status& error) {
  Sample sample;
  sample.errors = 1;
  sample.first_error = error;
  return sample;
}

std::vector<Result> RunCases(
    absl::Span<Layer* const> layers, absl::Span<const Case> cases,
    absl::Duration duration,
    absl::FunctionRef<void(const Layer&, const Case&)> on_start,
    absl::FunctionRef<absl::StatusOr<absl::Duration>()> cpu_used) {
  std::vector<Result> results;
  for (const Case& measured : cases) {
    for (Layer* layer : layers) {
      on_start(*layer, measured);
      results.push_back(RunCase(*layer, measured, duration, cpu_used));
    }
  }
  return results;
}

}  // namespace verbena::bench
