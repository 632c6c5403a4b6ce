#include "tools/rpc_bench/report.h"

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tools/rpc_bench/options.h"
#include "tools/rpc_bench/workload.h"

namespace verbena::bench {
namespace {

std::string Microseconds(const Result& result, double value) {
  return result.successes == 0 ? "-" : absl::StrFormat("%.2f", value);
}

std::string JsonNumber(const Result& result, double value) {
  return result.successes == 0 ? "null" : absl::StrFormat("%.3f", value);
}

std::string JsonString(absl::string_view text) {
  std::string quoted = "\"";
  for (const char character : text) {
    const auto code = static_cast<unsigned char>(character);
    if (character == '"' || character == '\\') {
      absl::StrAppend(&quoted, "\\", absl::string_view(&character, 1));
    } else if (code < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", code);
    } else {
      quoted.push_back(character);
    }
  }
  quoted.push_back('"');
  return quoted;
}

// The last result of the same size as that at `first`.
size_t LastOfSize(absl::Span<const Result> results, size_t first) {
  size_t last = first;
  while (last + 1 < results.size() &&
         results[last + 1].size_bytes == results[first].size_bytes) {
    ++last;
  }
  return last;
}

std::string Outstanding(int outstanding) {
  return absl::StrCat(outstanding, " outstanding");
}

}  // namespace

std::string Table(absl::string_view device, absl::Span<const Result> results) {
  std::string table = absl::StrFormat("device: %s\n", device);
  if (results.empty()) return table;
  const size_t last = LastOfSize(results, 0);
  absl::StrAppendFormat(
      &table, "\n%10s  %-32s  %s\n%10s  %10s %10s %10s  %12s %12s %8s\n", "",
      Outstanding(results[0].outstanding),
      Outstanding(results[last].outstanding), "payload", "p50 us", "p99 us",
      "p99.9 us", "calls/s", "MB/s", "errors");
  std::string notes;
  for (size_t i = 0; i < results.size(); ++i) {
    const Result& latency = results[i];
    const size_t end = LastOfSize(results, i);
    const Result& rate = results[end];
    uint64_t errors = 0;
    for (; i < end; ++i) errors += results[i].errors;
    errors += rate.errors;
    absl::StrAppendFormat(&table, "%10s  %10s %10s %10s  %12.0f %12.1f %8d\n",
                          SizeName(latency.size_bytes),
                          Microseconds(latency, latency.p50_us),
                          Microseconds(latency, latency.p99_us),
                          Microseconds(latency, latency.p999_us),
                          rate.calls_per_s, rate.bytes_per_s / 1e6, errors);
  }
  for (const Result& result : results) {
    if (result.errors == 0) continue;
    absl::StrAppendFormat(&notes, "%s, %s: %d errors, the first: %s\n",
                          SizeName(result.size_bytes),
                          Outstanding(result.outstanding), result.errors,
                          result.first_error.ToString());
  }
  if (!notes.empty()) absl::StrAppend(&table, "\n", notes);
  return table;
}

std::string Json(absl::string_view device, absl::Span<const Result> results) {
  std::string json =
      absl::StrCat("{\"device\": ", JsonString(device), ", \"results\": [");
  const char* separator = "";
  for (const Result& result : results) {
    absl::StrAppendFormat(
        &json,
        "%s{\"layer\": %s, \"size_bytes\": %d, \"outstanding\": %d, "
        "\"p50_us\": %s, \"p99_us\": %s, \"p999_us\": %s, "
        "\"calls_per_s\": %.1f, \"bytes_per_s\": %.0f, \"errors\": %d}",
        separator, JsonString(result.layer), result.size_bytes,
        result.outstanding, JsonNumber(result, result.p50_us),
        JsonNumber(result, result.p99_us), JsonNumber(result, result.p999_us),
        result.calls_per_s, result.bytes_per_s, result.errors);
    separator = ", ";
  }
  return absl::StrCat(json, "]}\n");
}

}  // namespace verbena::bench
