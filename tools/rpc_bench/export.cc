#include "tools/rpc_bench/export.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace verbena::bench {
namespace {

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

// Names and values of one result; numbers are bare, null is "null".
using Fields = std::vector<std::pair<absl::string_view, std::string>>;

std::string Number(double value, int digits = 3) {
  return value < 0 ? "null" : absl::StrFormat("%.*f", digits, value);
}

Fields FieldsOf(const Report& report, const Result& result) {
  const bool any = result.successes > 0;
  const auto percentile = [any](double value) {
    return any ? Number(value) : "null";
  };
  const bool echo = result.measured.op == Op::kEcho;
  return {
      {"layer", JsonString(result.layer)},
      {"op", JsonString(OpName(result.measured.op))},
      {"mode", JsonString(report.events ? "events" : "polled")},
      {"payload", JsonString(result.measured.attachment && result.layer == "rpc"
                                 ? "attachment"
                                 : "message")},
      {"size_bytes", absl::StrCat(result.measured.size_bytes)},
      {"outstanding", absl::StrCat(result.measured.outstanding)},
      {"rate_per_s", result.measured.rate_per_s > 0
                         ? Number(result.measured.rate_per_s, 1)
                         : "null"},
      {"p50_us", percentile(result.p50_us)},
      {"p90_us", percentile(result.p90_us)},
      {"p99_us", percentile(result.p99_us)},
      {"p999_us", percentile(result.p999_us)},
      {"max_us", percentile(result.max_us)},
      {"calls_per_s", Number(result.calls_per_s, 1)},
      {"bytes_per_s", Number(result.bytes_per_s, 0)},
      {"cpu_us_per_call", Number(result.cpu_us_per_call)},
      {"p50_ratio_to_verbs", Number(LatencyRatio(report, result))},
      {"rate_ratio_to_verbs", Number(RateRatio(report, result))},
      {"share_of_raw_bandwidth",
       echo ? Number(ShareOfRaw(report, result)) : "null"},
      {"errors", absl::StrCat(result.errors)},
      {"unstarted", absl::StrCat(result.unstarted)},
  };
}

std::string Processor(int processor) {
  return processor < 0 ? "null" : absl::StrCat(processor);
}

}  // namespace

std::string Json(const Report& report) {
  std::string json = absl::StrFormat(
      "{\"device\": %s, \"client_processor\": %s, \"server_processor\": %s, "
      "\"results\": [",
      JsonString(report.device), Processor(report.client_processor),
      Processor(report.server_processor));
  const char* separator = "";
  for (const Result& result : report.results) {
    absl::StrAppend(&json, separator, "{",
                    absl::StrJoin(FieldsOf(report, result), ", ",
                                  [](std::string* out, const auto& field) {
                                    absl::StrAppend(out, "\"", field.first,
                                                    "\": ", field.second);
                                  }),
                    "}");
    separator = ", ";
  }
  absl::StrAppend(&json, "], \"counters\": {",
                  absl::StrJoin(report.counters, ", ",
                                [](std::string* out, const auto& counter) {
                                  absl::StrAppend(out,
                                                  JsonString(counter.first),
                                                  ": ", counter.second);
                                }),
                  "}}\n");
  return json;
}

std::string Csv(const Report& report) {
  std::string csv;
  for (const Result& result : report.results) {
    const Fields fields = FieldsOf(report, result);
    if (csv.empty()) {
      csv = absl::StrJoin(fields, ",", [](std::string* out, const auto& field) {
        absl::StrAppend(out, field.first);
      });
      absl::StrAppend(&csv, "\n");
    }
    // No value has a comma; what does not exist is empty.
    absl::StrAppend(&csv,
                    absl::StrJoin(fields, ",",
                                  [](std::string* out, const auto& field) {
                                    if (field.second != "null") {
                                      absl::StrAppend(out, field.second);
                                    }
                                  }),
                    "\n");
  }
  return csv;
}

}  // namespace verbena::bench
