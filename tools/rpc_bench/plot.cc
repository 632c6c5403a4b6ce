#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "tools/rpc_bench/report.h"
#include "tools/rpc_bench/workload.h"

namespace verbena::bench {
namespace {

using Result = Report::Result;

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::map<double, std::string> x_ticks;
  // By name.
  std::map<std::string, std::vector<std::pair<double, double>>> curves;

  // Nothing has no logarithm.
  void Add(const Result& result, double x, double y) {
    if (x <= 0 || y <= 0) return;
    curves[result.op() == "echo"
               ? result.layer()
               : absl::StrCat(result.layer(), " ", result.op())]
        .emplace_back(x, y);
  }
};

// Gnuplot knows no escapes between single quotes but a second quote.
std::string Quote(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "''"}}), "'");
}

void AppendChart(const Chart& chart, absl::Span<const Threshold> thresholds,
                 std::string& script) {
  if (chart.curves.empty()) return;
  const auto tick = [](std::string* out, const auto& at) {
    absl::StrAppend(out, Quote(at.second), " ", at.first);
  };
  absl::StrAppend(&script, "set title ", Quote(chart.title), "\nset xlabel ",
                  Quote(chart.x_label), "\nset ylabel ", Quote(chart.y_label),
                  "\nunset arrow\nunset label\nset xtics (",
                  absl::StrJoin(chart.x_ticks, ", ", tick), ")\n");
  for (const Threshold& line : thresholds) {
    if (line.bytes < chart.x_ticks.begin()->first ||
        line.bytes > chart.x_ticks.rbegin()->first) {
      continue;
    }
    absl::StrAppendFormat(
        &script,
        "set arrow from first %1$d, graph 0 to first %1$d, graph 1 nohead dt "
        "2\nset label %2$s at first %1$d, graph 0.95 offset 1\n",
        line.bytes, Quote(line.name));
  }
  std::string plots;
  std::string points;
  for (const auto& [name, curve] : chart.curves) {
    absl::StrAppend(&plots, plots.empty() ? "plot" : ",",
                    " '-' with linespoints title ", Quote(name));
    for (const auto& [x, y] : curve) absl::StrAppend(&points, x, " ", y, "\n");
    absl::StrAppend(&points, "e\n");
  }
  absl::StrAppend(&script, plots, "\n", points);
}

}  // namespace

std::string PlotScript(const Report& report,
                       absl::Span<const Threshold> thresholds,
                       const std::string& output) {
  std::set<uint32_t> sizes;
  std::set<uint32_t> depths;
  Chart percentiles;
  Chart latency;
  Chart bandwidth;
  for (const Result& result : report.results()) {
    sizes.insert(result.size_bytes());
    depths.insert(result.outstanding());
    latency.x_ticks[result.size_bytes()] = SizeName(result.size_bytes());
  }
  // Gnuplot would have to place it at minus infinity.
  latency.x_ticks.erase(0);
  bandwidth.x_ticks = latency.x_ticks;
  for (const Result& result : report.results()) {
    if (result.op() == "echo" && result.outstanding() == *depths.begin()) {
      latency.Add(result, result.size_bytes(), result.p50_us());
      if (result.size_bytes() == *sizes.begin()) {
        // By how many calls there are for one that is slower.
        percentiles.Add(result, 2, result.p50_us());
        percentiles.Add(result, 10, result.p90_us());
        percentiles.Add(result, 100, result.p99_us());
        percentiles.Add(result, 1000, result.p999_us());
      }
    }
    if (result.outstanding() == *depths.rbegin()) {
      bandwidth.Add(result, result.size_bytes(), result.bytes_per_s() / 1e6);
    }
  }
  std::string script = absl::StrCat(
      "set terminal svg size 760,1300 background 'white'\nset output ",
      Quote(output), "\nset multiplot layout 3,1 title ",
      Quote(absl::StrCat("rpc_bench on ", report.device(), ", both sides ",
                         HowSidesWait(report))),
      "\nset logscale xy\nset grid\nset key outside\n");
  if (sizes.empty()) return script;
  percentiles.title =
      absl::StrFormat("Latency by percentile: echo of %s, %d outstanding",
                      SizeName(*sizes.begin()), *depths.begin());
  percentiles.x_label = "percentile";
  percentiles.y_label = "latency, us";
  percentiles.x_ticks = {{2, "50"}, {10, "90"}, {100, "99"}, {1000, "99.9"}};
  latency.title = absl::StrFormat(
      "Median latency by size: echo, %d outstanding", *depths.begin());
  latency.y_label = "p50, us";
  bandwidth.title =
      absl::StrFormat("Bandwidth by size: %d outstanding; echoes move it twice",
                      *depths.rbegin());
  bandwidth.y_label = "MB/s of payload";
  latency.x_label = bandwidth.x_label = "payload";
  AppendChart(percentiles, {}, script);
  AppendChart(latency, thresholds, script);
  AppendChart(bandwidth, thresholds, script);
  return script;
}

absl::Status CheckGnuplot() {
  if (std::system("command -v gnuplot >/dev/null") == 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      "--plot draws with gnuplot, which is missing; to install it: "
      "apt-get install gnuplot-nox");
}

absl::Status RunGnuplot(const std::string& script) {
  std::FILE* const gnuplot = popen("gnuplot", "we");
  if (gnuplot == nullptr) return absl::ErrnoToStatus(errno, "popen");
  std::fputs(script.c_str(), gnuplot);
  if (pclose(gnuplot) == 0) return absl::OkStatus();
  return absl::InternalError("gnuplot failed; its own message is above");
}

}  // namespace verbena::bench
