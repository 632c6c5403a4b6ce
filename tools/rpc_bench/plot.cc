#include "tools/rpc_bench/plot.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/rpc_bench/chart.h"
#include "tools/rpc_bench/options.h"

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

// The curve called `name`; made if there is none. In the order of their first
// points.
Curve& CurveOf(const std::string& name, std::vector<Curve>& curves) {
  for (Curve& curve : curves) {
    if (curve.name == name) return curve;
  }
  curves.push_back({.name = name, .points = {}});
  return curves.back();
}

std::string NameOf(const Result& result) {
  return result.measured.op == Op::kEcho
             ? result.layer
             : absl::StrCat(result.layer, " ", OpName(result.measured.op));
}

// Over all results of echoes.
struct Extremes {
  explicit Extremes(const Report& report) {
    for (const Result& result : report.results) {
      if (result.measured.op != Op::kEcho) continue;
      sizes.insert(result.measured.size_bytes);
      depths.insert(result.measured.outstanding);
    }
  }
  std::set<uint64_t> sizes;
  std::set<int> depths;
};

Chart PercentileChart(const Report& report, const Extremes& extremes) {
  const uint64_t size = *extremes.sizes.begin();
  const int depth = *extremes.depths.begin();
  Chart chart;
  chart.title = absl::StrFormat(
      "Latency by percentile: echo of %s, %d "
      "outstanding",
      SizeName(size), depth);
  chart.x_label = "percentile";
  chart.y_label = "latency, us";
  for (const Percentile& percentile : kPercentiles) {
    chart.x_ticks.push_back({percentile.one_in, percentile.name});
  }
  for (const Result& result : report.results) {
    if (result.measured.op != Op::kEcho || result.successes == 0 ||
        result.measured.size_bytes != size ||
        result.measured.outstanding != depth) {
      continue;
    }
    Curve& curve = CurveOf(result.layer, chart.curves);
    for (const Percentile& percentile : kPercentiles) {
      // Fewer calls do not say.
      if (result.successes < percentile.one_in) continue;
      const uint64_t nanoseconds =
          result.latencies.Quantile(1 - 1 / percentile.one_in);
      curve.points.push_back(
          {percentile.one_in, std::max<double>(nanoseconds, 1) / 1e3});
    }
  }
  return chart;
}

// What every chart by size has. Nothing has no logarithm.
Chart SizeChart(const Extremes& extremes,
                absl::Span<const Threshold> thresholds) {
  Chart chart;
  chart.x_label = "payload";
  for (uint64_t size : extremes.sizes) {
    if (size > 0) {
      chart.x_ticks.push_back({static_cast<double>(size), SizeName(size)});
    }
  }
  for (const Threshold& threshold : thresholds) {
    chart.lines.push_back(
        {static_cast<double>(threshold.bytes), threshold.name});
  }
  return chart;
}

Chart LatencyChart(const Report& report, const Extremes& extremes,
                   absl::Span<const Threshold> thresholds) {
  const int depth = *extremes.depths.begin();
  Chart chart = SizeChart(extremes, thresholds);
  chart.title =
      absl::StrFormat("Median latency by size: echo, %d outstanding", depth);
  chart.y_label = "p50, us";
  for (const Result& result : report.results) {
    if (result.measured.op != Op::kEcho || result.successes == 0 ||
        result.measured.size_bytes == 0 ||
        result.measured.outstanding != depth) {
      continue;
    }
    CurveOf(NameOf(result), chart.curves)
        .points.push_back({static_cast<double>(result.measured.size_bytes),
                           std::max(result.p50_us, 1e-3)});
  }
  return chart;
}

Chart BandwidthChart(const Report& report, const Extremes& extremes,
                     absl::Span<const Threshold> thresholds) {
  const int depth = *extremes.depths.rbegin();
  Chart chart = SizeChart(extremes, thresholds);
  chart.title = absl::StrFormat(
      "Bandwidth by size: %d outstanding; echoes move it twice", depth);
  chart.y_label = "MB/s of payload";
  for (const Result& result : report.results) {
    if (result.bytes_per_s <= 0 || result.measured.outstanding != depth) {
      continue;
    }
    CurveOf(NameOf(result), chart.curves)
        .points.push_back({static_cast<double>(result.measured.size_bytes),
                           result.bytes_per_s / 1e6});
  }
  return chart;
}

}  // namespace

std::string Plot(const Report& report, absl::Span<const Threshold> thresholds) {
  const Extremes extremes(report);
  std::vector<Chart> charts;
  if (!extremes.sizes.empty()) {
    charts.push_back(PercentileChart(report, extremes));
    charts.push_back(LatencyChart(report, extremes, thresholds));
    charts.push_back(BandwidthChart(report, extremes, thresholds));
  }
  constexpr int kHeading = 34;
  const int height =
      kHeading + kChartHeight * static_cast<int>(charts.size()) + 10;
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
      "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" fill=\"#222\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
      "<text x=\"20\" y=\"24\" font-size=\"17\">rpc_bench on %s, both sides "
      "%s</text>\n",
      kChartWidth, height, kChartWidth, height, report.device,
      report.events ? "sleep between messages" : "poll");
  for (size_t i = 0; i < charts.size(); ++i) {
    absl::StrAppend(
        &svg, Draw(charts[i], kHeading + kChartHeight * static_cast<int>(i)));
  }
  return absl::StrCat(svg, "</svg>\n");
}

}  // namespace verbena::bench
