#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/load/workload.h"
#include "tools/rpc_bench/report.h"

namespace verbena::bench {
namespace {

using Result = Report::Result;

// A number, or "-" for one that does not exist.
std::string Cell(bool exists, double value, int digits = 2) {
  return exists ? absl::StrFormat("%.*f", digits, value) : "-";
}

std::string Place(absl::string_view who, bool pinned, int processor) {
  return pinned ? absl::StrCat(who, " on processor ", processor)
                : absl::StrCat(who, " not pinned");
}

// The values in which the results of one kind differ. Sizes and layers are in
// the order in which they were measured.
struct Axes {
  Axes(const Report& report, bool echo) {
    for (const Result& result : report.results()) {
      if ((result.op() == "echo") != echo) continue;
      Add(result.size_bytes(), sizes);
      Add(result.layer(), layers);
      depths.insert(result.outstanding());
    }
  }

  template <typename T>
  static void Add(const T& value, std::vector<T>& values) {
    if (std::find(values.begin(), values.end(), value) == values.end()) {
      values.push_back(value);
    }
  }

  std::vector<uint32_t> sizes;
  std::vector<std::string> layers;
  std::set<uint32_t> depths;
};

// Latencies of one result, and rates of another one.
constexpr char kEchoLine[] =
    "%8s %-9s %9s %8s %8s %8s %9s %8s %6s %11s %9s %6s %8s %7s\n";

// `latency` and `rate` are of one layer and size, but of different depths.
void AppendEchoLine(const Report& report, const std::string& size,
                    const Result& latency, const Result& rate,
                    std::string& table) {
  const bool measured = latency.has_p50_us();
  // Errors of all depths, because the line shows two of them.
  double errors = 0;
  for (const Result& result : report.results()) {
    if (result.layer() == latency.layer() && result.op() == "echo" &&
        result.size_bytes() == latency.size_bytes()) {
      errors += result.errors();
    }
  }
  absl::StrAppendFormat(
      &table, kEchoLine, size, latency.layer(),
      Cell(measured, latency.p50_us()), Cell(measured, latency.p90_us()),
      Cell(measured, latency.p99_us()), Cell(measured, latency.p999_us()),
      Cell(measured, latency.max_us()),
      Cell(latency.has_mean_us(), latency.mean_us()),
      Cell(latency.has_p50_ratio_to_verbs(), latency.p50_ratio_to_verbs()),
      Cell(true, rate.calls_per_s(), 0),
      Cell(true, rate.bytes_per_s() / 1e6, 1),
      Cell(rate.has_rate_ratio_to_verbs(), rate.rate_ratio_to_verbs()),
      Cell(rate.has_cpu_us_per_call(), rate.cpu_us_per_call()),
      Cell(true, errors, 0));
}

// A line for each size and layer: latencies with the fewest outstanding calls,
// rates with the most.
void AppendEchoes(const Report& report, const Axes& axes, std::string& table) {
  if (axes.sizes.empty()) return;
  const uint32_t fewest = *axes.depths.begin();
  const uint32_t most = *axes.depths.rbegin();
  absl::StrAppendFormat(&table, "\n%-18s %-62s %s\n", "",
                        absl::StrCat(fewest, " outstanding, us"),
                        absl::StrCat(most, " outstanding"));
  absl::StrAppendFormat(&table, kEchoLine, "payload", "layer", "p50", "p90",
                        "p99", "p99.9", "max", "mean", "ratio", "calls/s",
                        "MB/s", "ratio", "cpu us", "errors");
  for (uint32_t size : axes.sizes) {
    std::string name = SizeName(size);
    for (const std::string& layer : axes.layers) {
      const Result& latency = FindResult(report, layer, "echo", size, fewest);
      const Result& rate = FindResult(report, layer, "echo", size, most);
      if (latency.layer().empty() || rate.layer().empty()) continue;
      AppendEchoLine(report, name, latency, rate, table);
      name.clear();
    }
  }
}

// A line for each size: the bandwidth of the three verbs, then which share of
// READ and WRITE each layer's echoes reach.
void AppendStreams(const Report& report, const std::vector<std::string>& layers,
                   std::string& table) {
  const Axes axes(report, /*echo=*/false);
  if (axes.sizes.empty()) return;
  const uint32_t depth = *axes.depths.rbegin();
  absl::StrAppendFormat(
      &table, "\n%8s %-31s %s\n%8s %10s %10s %10s", "",
      absl::StrFormat("raw streams, %d outstanding, MB/s", depth),
      layers.empty() ? "" : "  echo's share of READ and WRITE", "payload",
      "WRITE", "READ", "SEND");
  for (const std::string& layer : layers) {
    absl::StrAppendFormat(&table, " %10s", layer);
  }
  for (uint32_t size : axes.sizes) {
    absl::StrAppendFormat(&table, "\n%8s", SizeName(size));
    for (const char* op : {"write", "read", "send"}) {
      const Result& stream = FindResult(report, "verbs", op, size, depth);
      absl::StrAppendFormat(
          &table, " %10s",
          Cell(!stream.layer().empty(), stream.bytes_per_s() / 1e6, 1));
    }
    for (const std::string& layer : layers) {
      const Result& echo = FindResult(report, layer, "echo", size, depth);
      absl::StrAppendFormat(&table, " %10s",
                            Cell(echo.has_share_of_raw_bandwidth(),
                                 echo.share_of_raw_bandwidth()));
    }
  }
  absl::StrAppend(&table, "\n");
}

// A line for a side, with the fields of VerbsCost as columns: what they count,
// or if there is no `cost` their names.
void AppendVerbsLine(absl::string_view side, const VerbsCost* cost,
                     std::string& table) {
  absl::StrAppendFormat(&table, " %-7s", side);
  for (int i = 0; i < VerbsCost::descriptor()->field_count(); ++i) {
    const auto* const field = VerbsCost::descriptor()->field(i);
    absl::StrAppendFormat(
        &table, " %11s",
        cost == nullptr
            ? field->name()
            : Cell(true, VerbsCost::GetReflection()->GetDouble(*cost, field),
                   3));
  }
  absl::StrAppend(&table, "\n");
}

// Two lines for each result that has counts, one a side; the head comes before
// the first.
void AppendVerbs(const Report& report, std::string& table) {
  bool any = false;
  for (const Result& result : report.results()) {
    if (!result.has_client_verbs()) continue;
    if (!any) {
      absl::StrAppendFormat(&table,
                            "\n%8s cost in verbs, a call and side\n"
                            "%8s %-9s %-5s %11s",
                            "", "payload", "layer", "op", "outstanding");
      AppendVerbsLine("side", nullptr, table);
    }
    any = true;
    absl::StrAppendFormat(&table, "%8s %-9s %-5s %11d",
                          SizeName(result.size_bytes()), result.layer(),
                          result.op(), result.outstanding());
    AppendVerbsLine("client", &result.client_verbs(), table);
    absl::StrAppendFormat(&table, "%36s", "");
    AppendVerbsLine("server", &result.server_verbs(), table);
  }
}

// Says what does not fit the columns: errors, unfair streams, calls that were
// never started, and hardware counters.
std::string Notes(const Report& report) {
  std::string notes;
  for (const Result& result : report.results()) {
    const std::string title = absl::StrCat(
        result.layer(), " ", result.op(), ", ", SizeName(result.size_bytes()),
        ", ", result.outstanding(), " outstanding");
    if (result.errors() > 0) {
      absl::StrAppendFormat(&notes, "%s: %.0f errors, the first: %s\n", title,
                            result.errors(), result.first_error());
    }
    if (result.has_least_share()) {
      absl::StrAppendFormat(
          &notes, "%s: the slowest of %d streams had %.2f of the mean rate\n",
          title, result.streams(), result.least_share());
    }
    if (result.unstarted() > 0) {
      absl::StrAppendFormat(&notes,
                            "%s: %.0f calls were never started: the requested "
                            "rate is higher than the server can sustain\n",
                            title, result.unstarted());
    }
  }
  const std::map<std::string, double> sorted(report.counters().begin(),
                                             report.counters().end());
  for (const auto& [name, grown] : sorted) {
    // A receiver that is not ready is a fault. So these counters are also shown
    // if they are 0.
    if (grown == 0 && !absl::StrContains(name, "rnr")) continue;
    absl::StrAppendFormat(&notes, "counter %s: %+.0f\n", name, grown);
  }
  return notes;
}

}  // namespace

// Begins with how the run was made, then tables of echoes, streams and verbs,
// then notes.
std::string Table(const Report& report) {
  std::string table = absl::StrFormat(
      "device: %s; both sides %s; %s, %s\n", report.device(),
      HowSidesWait(report),
      Place("client", report.has_client_processor(), report.client_processor()),
      Place("server", report.has_server_processor(),
            report.server_processor()));
  const Axes echoes(report, /*echo=*/true);
  AppendEchoes(report, echoes, table);
  AppendStreams(report, echoes.layers, table);
  AppendVerbs(report, table);
  std::set<uint32_t> attached;
  for (const Result& result : report.results()) {
    if (result.payload() == "attachment") attached.insert(result.size_bytes());
  }
  if (!attached.empty()) {
    absl::StrAppend(&table, "\nrpc payloads that travel as attachments: ",
                    absl::StrJoin(attached, ", ",
                                  [](std::string* out, uint32_t size) {
                                    out->append(SizeName(size));
                                  }),
                    "\n");
  }
  const std::string notes = Notes(report);
  if (!notes.empty()) absl::StrAppend(&table, "\n", notes);
  return table;
}

}  // namespace verbena::bench
