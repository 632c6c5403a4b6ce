#include "tools/rpc_bench/workload.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tools/rpc_bench/verbs_count.h"

namespace verbena::bench {
namespace {

// As many digits as mean something.
double Rounded(double value, double steps = 1e3) {
  return std::round(value * steps) / steps;
}

void SetUsage(const Usage& before, const Usage& after, uint64_t calls,
              Report::Result& result) {
  result.set_cpu_us_per_call(
      Rounded(absl::ToDoubleMicroseconds(after.cpu - before.cpu) / calls));
  if (!before.verbs_are_counted) return;
  *result.mutable_client_verbs() =
      VerbsPerCall(before.client_verbs, after.client_verbs, calls);
  *result.mutable_server_verbs() =
      VerbsPerCall(before.server_verbs, after.server_verbs, calls);
}

Outcome RunCase(Layer& layer, const Case& measured, absl::Duration duration,
                absl::FunctionRef<absl::StatusOr<Usage>()> usage) {
  const absl::Status ready = layer.Prepare(measured);
  if (!ready.ok()) {
    layer.Release();
    return Summarize(layer.name(), measured, FailedSample(ready));
  }
  const absl::StatusOr<Usage> before = usage();
  const Sample sample = layer.Run(measured, duration);
  const absl::StatusOr<Usage> after = usage();
  layer.Release();
  Outcome outcome = Summarize(layer.name(), measured, sample);
  if (before.ok() && after.ok() && sample.ended > 0) {
    SetUsage(*before, *after, sample.ended, outcome.result);
  }
  return outcome;
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

std::string SizeName(uint64_t bytes) {
  if (bytes != 0 && bytes % (1 << 20) == 0) {
    return absl::StrCat(bytes >> 20, " MiB");
  }
  if (bytes != 0 && bytes % (1 << 10) == 0) {
    return absl::StrCat(bytes >> 10, " KiB");
  }
  return absl::StrCat(bytes, " B");
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

Outcome Summarize(absl::string_view layer, const Case& measured,
                  const Sample& sample) {
  Outcome outcome;
  outcome.latencies = sample.latencies;
  Report::Result& result = outcome.result;
  result.set_layer(std::string(layer));
  result.set_op(std::string(OpName(measured.op)));
  result.set_payload(measured.attachment && layer == "rpc" ? "attachment"
                                                           : "message");
  result.set_size_bytes(static_cast<uint32_t>(measured.size_bytes));
  result.set_outstanding(static_cast<uint32_t>(measured.outstanding));
  if (measured.rate_per_s > 0) result.set_rate_per_s(measured.rate_per_s);
  if (sample.latencies.count() > 0) {
    const LatencyHistogram& latencies = sample.latencies;
    result.set_p50_us(latencies.Quantile(0.5) / 1e3);
    result.set_p90_us(latencies.Quantile(0.9) / 1e3);
    result.set_p99_us(latencies.Quantile(0.99) / 1e3);
    result.set_p999_us(latencies.Quantile(0.999) / 1e3);
    result.set_max_us(latencies.max() / 1e3);
  }
  result.set_calls_per_s(Rounded(sample.calls_per_s, 10));
  result.set_bytes_per_s(Rounded(sample.calls_per_s * measured.size_bytes, 1));
  result.set_errors(static_cast<double>(sample.errors));
  result.set_unstarted(static_cast<double>(sample.unstarted));
  if (sample.errors > 0) result.set_first_error(sample.first_error.ToString());
  return outcome;
}

std::string Payload(uint64_t size_bytes) {
  std::string payload(size_bytes, '\0');
  for (size_t i = 0; i < payload.size(); ++i) {
    payload[i] = static_cast<char>(i * 31 + (i >> 8) * 17);
  }
  return payload;
}

void Stamp(uint64_t number, absl::Span<uint8_t> payload) {
  if (payload.empty()) return;
  std::memcpy(payload.data(), &number,
              std::min(payload.size(), sizeof(number)));
}

absl::Status CheckEcho(absl::Span<const uint8_t> got,
                       absl::Span<const uint8_t> want, bool contents) {
  if (got.size() != want.size()) {
    return absl::DataLossError(
        absl::StrFormat("%d bytes came back of %d", got.size(), want.size()));
  }
  if (contents && !std::equal(got.begin(), got.end(), want.begin())) {
    return absl::DataLossError("other bytes came back than were sent");
  }
  return absl::OkStatus();
}

Sample FailedSample(const absl::Status& error) {
  Sample sample;
  sample.errors = 1;
  sample.first_error = error;
  return sample;
}

std::vector<Outcome> RunCases(
    absl::Span<Layer* const> layers, absl::Span<const Case> cases,
    absl::Duration duration,
    absl::FunctionRef<void(const Layer&, const Case&)> on_start,
    absl::FunctionRef<absl::StatusOr<Usage>()> usage) {
  std::vector<Outcome> outcomes;
  for (const Case& measured : cases) {
    for (Layer* layer : layers) {
      on_start(*layer, measured);
      outcomes.push_back(RunCase(*layer, measured, duration, usage));
    }
  }
  return outcomes;
}

}  // namespace verbena::bench
