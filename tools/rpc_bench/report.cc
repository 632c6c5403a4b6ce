#include "tools/rpc_bench/report.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tools/rpc_bench/options.h"

namespace verbena::bench {
namespace {

// A number, or "-" for one that does not exist.
std::string Cell(double value, int digits) {
  return value < 0 ? "-" : absl::StrFormat("%.*f", digits, value);
}

std::string Microseconds(const Result* result, double Result::*percentile) {
  return result == nullptr || result->successes == 0
             ? "-"
             : absl::StrFormat("%.2f", result->*percentile);
}

std::string Place(absl::string_view who, int processor) {
  return processor < 0 ? absl::StrCat(who, " not pinned")
                       : absl::StrCat(who, " on processor ", processor);
}

std::string Title(const Result& result) {
  return absl::StrCat(result.layer, " ", OpName(result.measured.op), ", ",
                      SizeName(result.measured.size_bytes), ", ",
                      result.measured.outstanding, " outstanding");
}

// What is different among the results of one op, in the order measured.
struct Axes {
  Axes(const Report& report, bool echo) {
    for (const Result& result : report.results) {
      if ((result.measured.op == Op::kEcho) != echo) continue;
      Add(result.measured.size_bytes, sizes);
      Add(result.layer, layers);
      depths.insert(result.measured.outstanding);
    }
  }

  template <typename T>
  static void Add(const T& value, std::vector<T>& values) {
    if (std::find(values.begin(), values.end(), value) == values.end()) {
      values.push_back(value);
    }
  }

  std::vector<uint64_t> sizes;
  std::vector<std::string> layers;
  std::set<int> depths;
};

void AppendEchoLine(const Report& report, const std::string& size,
                    const Result* latency, const Result* rate,
                    std::string& table) {
  const Result& any = latency != nullptr ? *latency : *rate;
  uint64_t errors = 0;
  for (const Result& result : report.results) {
    if (result.layer == any.layer && result.measured.op == Op::kEcho &&
        result.measured.size_bytes == any.measured.size_bytes) {
      errors += result.errors;
    }
  }
  absl::StrAppendFormat(
      &table, "%8s %-9s %9s %8s %8s %8s %9s %6s %11s %9s %6s %8s %7d\n", size,
      any.layer, Microseconds(latency, &Result::p50_us),
      Microseconds(latency, &Result::p90_us),
      Microseconds(latency, &Result::p99_us),
      Microseconds(latency, &Result::p999_us),
      Microseconds(latency, &Result::max_us),
      latency == nullptr ? "-" : Cell(LatencyRatio(report, *latency), 2),
      rate == nullptr ? "-" : Cell(rate->calls_per_s, 0),
      rate == nullptr ? "-" : Cell(rate->bytes_per_s / 1e6, 1),
      rate == nullptr ? "-" : Cell(RateRatio(report, *rate), 2),
      rate == nullptr ? "-" : Cell(rate->cpu_us_per_call, 2), errors);
}

void AppendEchoes(const Report& report, std::string& table) {
  const Axes axes(report, /*echo=*/true);
  if (axes.sizes.empty()) return;
  const int fewest = *axes.depths.begin();
  const int most = *axes.depths.rbegin();
  absl::StrAppendFormat(
      &table,
      "\n%-18s %-53s %s\n%8s %-9s %9s %8s %8s %8s %9s %6s %11s %9s %6s "
      "%8s %7s\n",
      "", absl::StrCat(fewest, " outstanding, us"),
      absl::StrCat(most, " outstanding"), "payload", "layer", "p50", "p90",
      "p99", "p99.9", "max", "ratio", "calls/s", "MB/s", "ratio", "cpu us",
      "errors");
  for (uint64_t size : axes.sizes) {
    std::string name = SizeName(size);
    for (const std::string& layer : axes.layers) {
      const Result* const latency =
          FindResult(report, layer, Op::kEcho, size, fewest);
      const Result* const rate =
          FindResult(report, layer, Op::kEcho, size, most);
      if (latency == nullptr && rate == nullptr) continue;
      AppendEchoLine(report, name, latency, rate, table);
      name.clear();
    }
  }
}

std::string StreamCell(const Report& report, Op op, uint64_t size, int depth) {
  const Result* const stream = FindResult(report, "verbs", op, size, depth);
  return stream == nullptr ? "-" : Cell(stream->bytes_per_s / 1e6, 1);
}

void AppendStreams(const Report& report, std::string& table) {
  const Axes axes(report, /*echo=*/false);
  if (axes.sizes.empty()) return;
  const int depth = *axes.depths.rbegin();
  const std::vector<std::string> layers = Axes(report, /*echo=*/true).layers;
  absl::StrAppendFormat(
      &table, "\n%8s %-31s %s\n%8s %10s %10s %10s", "",
      absl::StrFormat("raw streams, %d outstanding, MB/s", depth),
      layers.empty() ? "" : "  echo's share of READ and WRITE", "payload",
      "WRITE", "READ", "SEND");
  for (const std::string& layer : layers) {
    absl::StrAppendFormat(&table, " %10s", layer);
  }
  absl::StrAppend(&table, "\n");
  for (uint64_t size : axes.sizes) {
    absl::StrAppendFormat(&table, "%8s %10s %10s %10s", SizeName(size),
                          StreamCell(report, Op::kWrite, size, depth),
                          StreamCell(report, Op::kRead, size, depth),
                          StreamCell(report, Op::kSend, size, depth));
    for (const std::string& layer : layers) {
      const Result* const echo =
          FindResult(report, layer, Op::kEcho, size, depth);
      absl::StrAppendFormat(
          &table, " %10s",
          echo == nullptr ? "-" : Cell(ShareOfRaw(report, *echo), 2));
    }
    absl::StrAppend(&table, "\n");
  }
}

// "64 KiB, 1 MiB": the sizes of payloads that went beside the message.
std::string AttachedSizes(const Report& report) {
  std::set<uint64_t> sizes;
  for (const Result& result : report.results) {
    if (result.layer == "rpc" && result.measured.attachment) {
      sizes.insert(result.measured.size_bytes);
    }
  }
  return absl::StrJoin(sizes, ", ", [](std::string* out, uint64_t size) {
    out->append(SizeName(size));
  });
}

std::string Notes(const Report& report) {
  std::string notes;
  for (const Result& result : report.results) {
    if (result.errors > 0) {
      absl::StrAppendFormat(&notes, "%s: %d errors, the first: %s\n",
                            Title(result), result.errors,
                            result.first_error.ToString());
    }
    if (result.unstarted > 0) {
      absl::StrAppendFormat(
          &notes,
          "%s: %d calls were never started: the rate is more than it does\n",
          Title(result), result.unstarted);
    }
  }
  for (const auto& [name, grown] : report.counters) {
    if (grown == 0 && !absl::StrContains(name, "rnr")) continue;
    absl::StrAppendFormat(&notes, "counter %s: %+d\n", name, grown);
  }
  return notes;
}

}  // namespace

const Result* FindResult(const Report& report, const std::string& layer, Op op,
                         uint64_t size_bytes, int outstanding) {
  for (const Result& result : report.results) {
    if (result.layer == layer && result.measured.op == op &&
        result.measured.size_bytes == size_bytes &&
        result.measured.outstanding == outstanding) {
      return &result;
    }
  }
  return nullptr;
}

double LatencyRatio(const Report& report, const Result& result) {
  const Result* const verbs =
      FindResult(report, "verbs", result.measured.op,
                 result.measured.size_bytes, result.measured.outstanding);
  if (verbs == nullptr || verbs->p50_us == 0 || result.successes == 0) {
    return -1;
  }
  return result.p50_us / verbs->p50_us;
}

double RateRatio(const Report& report, const Result& result) {
  const Result* const verbs =
      FindResult(report, "verbs", result.measured.op,
                 result.measured.size_bytes, result.measured.outstanding);
  if (verbs == nullptr || verbs->calls_per_s == 0 || result.successes == 0) {
    return -1;
  }
  return result.calls_per_s / verbs->calls_per_s;
}

double ShareOfRaw(const Report& report, const Result& echo) {
  const Result* const write =
      FindResult(report, "verbs", Op::kWrite, echo.measured.size_bytes,
                 echo.measured.outstanding);
  const Result* const read =
      FindResult(report, "verbs", Op::kRead, echo.measured.size_bytes,
                 echo.measured.outstanding);
  if (write == nullptr || read == nullptr || write->calls_per_s == 0 ||
      read->calls_per_s == 0 || echo.successes == 0) {
    return -1;
  }
  return echo.calls_per_s * (1 / write->calls_per_s + 1 / read->calls_per_s);
}

std::string Table(const Report& report) {
  std::string table =
      absl::StrFormat("device: %s; both sides %s; %s, %s\n", report.device,
                      report.events ? "sleep between messages" : "poll",
                      Place("client", report.client_processor),
                      Place("server", report.server_processor));
  AppendEchoes(report, table);
  AppendStreams(report, table);
  const std::string attached = AttachedSizes(report);
  if (!attached.empty()) {
    absl::StrAppend(
        &table, "\nrpc payloads that travel as attachments: ", attached, "\n");
  }
  const std::string notes = Notes(report);
  if (!notes.empty()) absl::StrAppend(&table, "\n", notes);
  return table;
}

}  // namespace verbena::bench
