#include "tools/rpc_bench/chart.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace verbena::bench {
namespace {

// The frame around the curves.
constexpr double kLeft = 80;
constexpr double kRight = kChartWidth - 130;
constexpr double kTop = 44;
constexpr double kBottom = kChartHeight - 60;

// Told apart by people who see red and green alike, too.
constexpr const char* kColours[] = {"#0072b2", "#e69f00", "#cc3311",
                                    "#009e73", "#56b4e9", "#882255"};

std::string Escape(const std::string& text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

// Maps values from `low` to `high` to pixels from `from` to `to`.
struct Scale {
  double Of(double value) const {
    const double part = (std::log10(value) - std::log10(low)) /
                        (std::log10(high) - std::log10(low));
    return from + part * (to - from);
  }
  double low, high, from, to;
};

void AppendText(double x, double y, const char* anchor, int size,
                const std::string& text, std::string& svg) {
  absl::StrAppendFormat(&svg,
                        "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" "
                        "font-size=\"%d\">%s</text>\n",
                        x, y, anchor, size, Escape(text));
}

void AppendLine(double x1, double y1, double x2, double y2, const char* style,
                std::string& svg) {
  absl::StrAppendFormat(
      &svg, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1,
      y1, x2, y2, style);
}

constexpr char kGrid[] = "stroke=\"#ddd\"";
constexpr char kDashed[] = "stroke=\"#666\" stroke-dasharray=\"5 4\"";

// Whole powers of ten around all values of y; both axes need some extent.
Scale YScale(const Chart& chart) {
  double low = HUGE_VAL;
  double high = 0;
  for (const Curve& curve : chart.curves) {
    for (const auto& [x, y] : curve.points) {
      low = std::min(low, y);
      high = std::max(high, y);
    }
  }
  if (high == 0) low = high = 1;
  const double bottom = std::floor(std::log10(low));
  const double top = std::max(bottom + 1, std::ceil(std::log10(high)));
  return {std::pow(10, bottom), std::pow(10, top), kBottom, kTop};
}

Scale XScale(const Chart& chart) {
  double low = HUGE_VAL;
  double high = 0;
  for (const Mark& tick : chart.x_ticks) {
    low = std::min(low, tick.x);
    high = std::max(high, tick.x);
  }
  if (high == 0) low = high = 1;
  if (low == high) {
    low /= 2;
    high *= 2;
  }
  return {low, high, kLeft, kRight};
}

std::string TickName(double value) {
  if (value >= 1e6) return absl::StrCat(value / 1e6, "M");
  if (value >= 1e3) return absl::StrCat(value / 1e3, "k");
  return absl::StrCat(value);
}

void AppendAxes(const Chart& chart, const Scale& x, const Scale& y,
                std::string& svg) {
  for (double power = y.low; power <= y.high * 1.01; power *= 10) {
    AppendLine(kLeft, y.Of(power), kRight, y.Of(power), "stroke=\"#bbb\"", svg);
    AppendText(kLeft - 8, y.Of(power) + 4, "end", 12, TickName(power), svg);
    for (int i = 2; i < 10 && power < y.high * 0.99; ++i) {
      AppendLine(kLeft, y.Of(i * power), kRight, y.Of(i * power), kGrid, svg);
    }
  }
  for (const Mark& tick : chart.x_ticks) {
    AppendLine(x.Of(tick.x), kTop, x.Of(tick.x), kBottom, kGrid, svg);
    AppendText(x.Of(tick.x), kBottom + 18, "middle", 12, tick.name, svg);
  }
  AppendText((kLeft + kRight) / 2, kBottom + 42, "middle", 13, chart.x_label,
             svg);
  absl::StrAppendFormat(&svg,
                        "<text transform=\"translate(20 %.1f) rotate(-90)\" "
                        "text-anchor=\"middle\" font-size=\"13\">%s</text>\n",
                        (kTop + kBottom) / 2, Escape(chart.y_label));
}

void AppendCurve(const Curve& curve, size_t index, const Scale& x,
                 const Scale& y, std::string& svg) {
  const char* const colour = kColours[index % std::size(kColours)];
  std::string path;
  for (const auto& [px, py] : curve.points) {
    absl::StrAppendFormat(&path, "%.1f,%.1f ", x.Of(px), y.Of(py));
    absl::StrAppendFormat(
        &svg, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n",
        x.Of(px), y.Of(py), colour);
  }
  absl::StrAppendFormat(&svg,
                        "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" "
                        "stroke-width=\"2\"/>\n",
                        path, colour);
  const double top = kTop + 12 + 20 * index;
  absl::StrAppendFormat(&svg,
                        "<rect x=\"%.1f\" y=\"%.1f\" width=\"16\" "
                        "height=\"4\" fill=\"%s\"/>\n",
                        kRight + 12, top - 6, colour);
  AppendText(kRight + 34, top, "start", 12, curve.name, svg);
}

}  // namespace

std::string Draw(const Chart& chart, int top) {
  const Scale x = XScale(chart);
  const Scale y = YScale(chart);
  std::string svg = absl::StrFormat("<g transform=\"translate(0 %d)\">\n", top);
  AppendText(kLeft, 24, "start", 15, chart.title, svg);
  AppendAxes(chart, x, y, svg);
  for (const Mark& line : chart.lines) {
    if (line.x < x.low || line.x > x.high) continue;
    AppendLine(x.Of(line.x), kTop, x.Of(line.x), kBottom, kDashed, svg);
    AppendText(x.Of(line.x) + 4, kTop + 12, "start", 11, line.name, svg);
  }
  for (size_t i = 0; i < chart.curves.size(); ++i) {
    AppendCurve(chart.curves[i], i, x, y, svg);
  }
  absl::StrAppend(&svg, "</g>\n");
  return svg;
}

}  // namespace verbena::bench
