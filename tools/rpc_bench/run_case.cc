#include "tools/rpc_bench/run_case.h"

#include <cstdint>
#include <string>

#include "tools/rpc_bench/verbs_count.h"

namespace verbena::bench {

// Sets only the fields that mean something at the layer, so that the others are
// absent in JSON and CSV.
Report::Result Summarize(absl::string_view layer, const Case& measured,
                         const Sample& sample) {
  Report::Result result;
  result.set_layer(std::string(layer));
  result.set_op(std::string(OpName(measured.op)));
  result.set_payload(measured.attachment && layer == "rpc" ? "attachment"
                                                           : "message");
  const Kind kind = layer == "rpc" ? measured.kind : Kind::kUnary;
  result.set_kind(std::string(kKindNames[static_cast<size_t>(kind)]));
  if (layer == "rpc") {
    result.set_api(std::string(kApiNames[static_cast<size_t>(measured.api)]));
  }
  result.set_size_bytes(static_cast<uint32_t>(measured.size_bytes));
  result.set_outstanding(static_cast<uint32_t>(measured.outstanding));
  if (layer == "rpc" && measured.streams > 0) {
    result.set_streams(static_cast<uint32_t>(measured.streams));
    result.set_least_share(Rounded(sample.least_share));
  }
  if (measured.rate_per_s > 0) result.set_rate_per_s(measured.rate_per_s);
  if (sample.latencies.count() > 0) SetLatencies(sample.latencies, result);
  result.set_calls_per_s(Rounded(sample.calls_per_s, 10));
  result.set_bytes_per_s(Rounded(sample.calls_per_s * measured.size_bytes, 1));
  result.set_errors(static_cast<double>(sample.errors));
  result.set_unstarted(static_cast<double>(sample.unstarted));
  if (sample.errors > 0) result.set_first_error(sample.first_error.ToString());
  return result;
}

// Usage is read right before and after the run, outside of connecting. A layer
// that fails to prepare gives a result with that one error.
Report::Result RunCase(Layer& layer, const Case& measured,
                       absl::Duration duration,
                       absl::FunctionRef<absl::StatusOr<Usage>()> usage) {
  Sample sample = {.errors = 1, .first_error = layer.Prepare(measured)};
  absl::StatusOr<Usage> before;
  absl::StatusOr<Usage> after;
  if (sample.first_error.ok()) {
    before = usage();
    sample = layer.Run(measured, duration);
    after = usage();
  }
  layer.Release();
  Report::Result result = Summarize(layer.name(), measured, sample);
  const uint64_t calls = sample.ended;
  // Latencies are worth reporting without the usage.
  if (!before.ok() || !after.ok() || calls == 0) return result;
  result.set_cpu_us_per_call(
      Rounded(absl::ToDoubleMicroseconds(after->cpu - before->cpu) / calls));
  if (!before->verbs_are_counted) return result;
  *result.mutable_client_verbs() =
      VerbsPerCall(before->client_verbs, after->client_verbs, calls);
  *result.mutable_server_verbs() =
      VerbsPerCall(before->server_verbs, after->server_verbs, calls);
  return result;
}

}  // namespace verbena::bench
