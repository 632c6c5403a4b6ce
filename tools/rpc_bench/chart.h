// One chart with logarithmic axes, as SVG.

#ifndef VERBENA_TOOLS_RPC_BENCH_CHART_H_
#define VERBENA_TOOLS_RPC_BENCH_CHART_H_

#include <string>
#include <utility>
#include <vector>

namespace verbena::bench {

// A curve; its points are of values above zero.
struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

// A place on the x axis with a name.
struct Mark {
  double x;
  std::string name;
};

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Mark> x_ticks;
  std::vector<Mark> lines;  // Dashed, across the chart.
  std::vector<Curve> curves;
};

inline constexpr int kChartWidth = 760;
inline constexpr int kChartHeight = 420;

// A group of SVG elements, kChartWidth wide and kChartHeight high, whose top is
// at `top`.
std::string Draw(const Chart& chart, int top);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_CHART_H_
