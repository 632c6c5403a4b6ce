#include "tools/rpc_bench/plot.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace verbena::bench {
namespace {

// Percentiles, by how many calls there are for one that is slower.
struct Percentile {
  double one_in;
  const char* name;
};

constexpr Percentile kPercentiles[] = {
    {1.25, "20"},   {2, "50"},        {4, "75"},
    {10, "90"},     {20, "95"},       {100, "99"},
    {1000, "99.9"}, {10000, "99.99"}, {100000, "99.999"},
};

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::map<double, std::string> x_ticks;
  std::vector<Threshold> lines;
  // By name; the points have values above zero.
  std::map<std::string, std::vector<std::pair<double, double>>> curves;
};

// Gnuplot knows no escapes between single quotes but a second quote.
std::string Quote(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "''"}}), "'");
}

std::string CurveName(const Report::Result& result) {
  return result.op() == "echo" ? result.layer()
                               : absl::StrCat(result.layer(), " ", result.op());
}

// What all charts by size have. Nothing has no logarithm.
Chart SizeChart(const std::set<uint32_t>& sizes,
                absl::Span<const Threshold> thresholds) {
  Chart chart;
  chart.x_label = "payload";
  for (uint32_t size : sizes) {
    if (size > 0) chart.x_ticks[size] = SizeName(size);
  }
  for (const Threshold& line : thresholds) {
    if (!sizes.empty() && line.bytes >= *sizes.begin() &&
        line.bytes <= *sizes.rbegin()) {
      chart.lines.push_back(line);
    }
  }
  return chart;
}

Chart PercentileChart(absl::Span<const Outcome> outcomes, uint32_t size,
                      uint32_t depth) {
  Chart chart;
  chart.title =
      absl::StrFormat("Latency by percentile: echo of %s, %d outstanding",
                      SizeName(size), depth);
  chart.x_label = "percentile";
  chart.y_label = "latency, us";
  for (const Percentile& percentile : kPercentiles) {
    chart.x_ticks[percentile.one_in] = percentile.name;
  }
  for (const auto& [result, latencies] : outcomes) {
    if (result.op() != "echo" || result.size_bytes() != size ||
        result.outstanding() != depth) {
      continue;
    }
    for (const Percentile& percentile : kPercentiles) {
      // Fewer calls do not say.
      if (latencies.count() < percentile.one_in) continue;
      const uint64_t nanoseconds =
          latencies.Quantile(1 - 1 / percentile.one_in);
      chart.curves[result.layer()].emplace_back(
          percentile.one_in, std::max<double>(nanoseconds, 1) / 1e3);
    }
  }
  return chart;
}

void AppendChart(const Chart& chart, std::string& script) {
  if (chart.curves.empty()) return;
  absl::StrAppend(&script, "set title ", Quote(chart.title), "\nset xlabel ",
                  Quote(chart.x_label), "\nset ylabel ", Quote(chart.y_label),
                  "\nunset arrow\nunset label\nset xtics (");
  const char* separator = "";
  for (const auto& [x, name] : chart.x_ticks) {
    absl::StrAppend(&script, separator, Quote(name), " ", x);
    separator = ", ";
  }
  absl::StrAppend(&script, ")\n");
  for (const Threshold& line : chart.lines) {
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

std::string PlotScript(absl::Span<const Outcome> outcomes, const Report& report,
                       absl::Span<const Threshold> thresholds,
                       const std::string& output) {
  std::set<uint32_t> sizes;
  std::set<uint32_t> depths;
  for (const Outcome& outcome : outcomes) {
    sizes.insert(outcome.result.size_bytes());
    depths.insert(outcome.result.outstanding());
  }
  const std::string title = absl::StrCat(
      "rpc_bench on ", report.device(), ", both sides ",
      report.results_size() > 0 && report.results(0).mode() == "events"
          ? "sleep between messages"
          : "poll");
  std::string script = absl::StrCat(
      "set terminal svg size 760,1300 background 'white'\nset output ",
      Quote(output), "\nset multiplot layout 3,1 title ", Quote(title),
      "\nset logscale xy\nset grid\nset key outside\n");
  if (outcomes.empty()) return script;
  AppendChart(PercentileChart(outcomes, *sizes.begin(), *depths.begin()),
              script);
  Chart latency = SizeChart(sizes, thresholds);
  latency.title = absl::StrFormat(
      "Median latency by size: echo, %d outstanding", *depths.begin());
  latency.y_label = "p50, us";
  Chart bandwidth = SizeChart(sizes, thresholds);
  bandwidth.title =
      absl::StrFormat("Bandwidth by size: %d outstanding; echoes move it twice",
                      *depths.rbegin());
  bandwidth.y_label = "MB/s of payload";
  for (const auto& [result, latencies] : outcomes) {
    if (result.size_bytes() == 0 || latencies.count() == 0) continue;
    if (result.op() == "echo" && result.outstanding() == *depths.begin()) {
      latency.curves[CurveName(result)].emplace_back(
          result.size_bytes(), std::max(result.p50_us(), 1e-3));
    }
    if (result.bytes_per_s() > 0 && result.outstanding() == *depths.rbegin()) {
      bandwidth.curves[CurveName(result)].emplace_back(
          result.size_bytes(), result.bytes_per_s() / 1e6);
    }
  }
  AppendChart(latency, script);
  AppendChart(bandwidth, script);
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
