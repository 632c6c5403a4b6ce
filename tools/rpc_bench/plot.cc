#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "tools/child/child_process.h"
#include "tools/load/workload.h"
#include "tools/rpc_bench/report.h"

namespace verbena::bench {
namespace {

using Result = Report::Result;

// By name, the points as gnuplot reads them: a line for each.
using Curves = std::map<std::string, std::string>;

// Nothing has no logarithm.
void Add(const Result& result, double x, double y, Curves& curves) {
  if (x <= 0 || y <= 0) return;
  const std::string name = result.op() == "echo"
                               ? result.layer()
                               : absl::StrCat(result.layer(), " ", result.op());
  absl::StrAppend(&curves[name], x, " ", y, "\n");
}

// Gnuplot knows no escapes between single quotes but a second quote.
std::string Quote(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "''"}}), "'");
}

// Points stand behind the plot command, a block for each curve, as gnuplot
// reads '-'.
void AppendChart(absl::string_view title, absl::string_view y_label,
                 const Curves& curves, std::string& script) {
  if (curves.empty()) return;
  const auto name = [](std::string* out, const auto& curve) {
    absl::StrAppend(out, "'-' with linespoints title ", Quote(curve.first));
  };
  const auto points = [](std::string* out, const auto& curve) {
    absl::StrAppend(out, curve.second, "e\n");
  };
  absl::StrAppend(&script, "set title ", Quote(title), "\nset ylabel ",
                  Quote(y_label), "\nplot ", absl::StrJoin(curves, ", ", name),
                  "\n", absl::StrJoin(curves, "", points));
}

// Appends the commands that all charts by size need: names on the axis, and the
// thresholds from the smallest to the largest of `sizes`.
// REQUIRES: !sizes.empty().
void AppendSizes(const std::set<uint32_t>& sizes,
                 absl::Span<const Threshold> thresholds, std::string& script) {
  const auto tick = [](std::string* out, uint32_t size) {
    absl::StrAppend(out, Quote(SizeName(size)), " ", size);
  };
  absl::StrAppend(&script, "set xlabel 'payload'\nset xtics (",
                  absl::StrJoin(sizes, ", ", tick), ")\n");
  for (const Threshold& line : thresholds) {
    if (line.bytes < *sizes.begin() || line.bytes > *sizes.rbegin()) continue;
    absl::StrAppendFormat(
        &script,
        "set arrow from first %1$d, graph 0 to first %1$d, graph 1 nohead dt "
        "2\nset label %2$s at first %1$d, graph 0.95 offset 1\n",
        line.bytes, Quote(line.name));
  }
}

}  // namespace

// Sorts the results into the curves of three charts: latency by percentile,
// latency by size and bandwidth by size. The points stand in the script itself.
std::string PlotScript(const Report& report,
                       absl::Span<const Threshold> thresholds,
                       const std::string& output) {
  std::string script = absl::StrCat(
      "set terminal svg size 760,1300 background 'white'\nset output ",
      Quote(output), "\nset multiplot layout 3,1 title ",
      Quote(absl::StrCat("rpc_bench on ", report.device(), ", both sides ",
                         HowSidesWait(report))),
      "\nset logscale xy\nset grid\nset key outside\n");
  std::set<uint32_t> sizes;
  std::set<uint32_t> depths;
  for (const Result& result : report.results()) {
    sizes.insert(result.size_bytes());
    depths.insert(result.outstanding());
  }
  if (sizes.empty()) return script;
  const uint32_t smallest = *sizes.begin();
  const uint32_t fewest = *depths.begin();
  const uint32_t most = *depths.rbegin();
  Curves percentiles;
  Curves latencies;
  Curves bandwidths;
  for (const Result& result : report.results()) {
    const uint32_t size = result.size_bytes();
    if (result.op() == "echo" && result.outstanding() == fewest) {
      Add(result, size, result.p50_us(), latencies);
      if (size == smallest) {
        // The axis is the number of calls among which one is slower.
        Add(result, 2, result.p50_us(), percentiles);
        Add(result, 10, result.p90_us(), percentiles);
        Add(result, 100, result.p99_us(), percentiles);
        Add(result, 1000, result.p999_us(), percentiles);
      }
    }
    if (result.outstanding() == most) {
      Add(result, size, result.bytes_per_s() / 1e6, bandwidths);
    }
  }
  script +=
      "set xlabel 'percentile'\n"
      "set xtics ('50' 2, '90' 10, '99' 100, '99.9' 1000)\n";
  AppendChart(
      absl::StrFormat("Latency by percentile: echo of %s, %d outstanding",
                      SizeName(smallest), fewest),
      "latency, us", percentiles, script);
  // A size of 0 has no place on a logarithmic axis.
  sizes.erase(0);
  if (sizes.empty()) return script;
  AppendSizes(sizes, thresholds, script);
  AppendChart(
      absl::StrFormat("Median latency by size: echo, %d outstanding", fewest),
      "p50, us", latencies, script);
  AppendChart(
      absl::StrFormat("Bandwidth by size: %d outstanding; echoes move it twice",
                      most),
      "MB/s of payload", bandwidths, script);
  return script;
}

absl::Status CheckGnuplot() {
  if (tools::RunToEnd({"gnuplot", "--version"}).exit_code == 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      "--plot draws with gnuplot, which is missing; to install it: "
      "apt-get install gnuplot-nox");
}

absl::Status RunGnuplot(const std::string& script) {
  const tools::Ran ran = tools::RunToEnd({"gnuplot"}, script);
  if (ran.exit_code == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("gnuplot failed: ", ran.errors));
}

}  // namespace verbena::bench
