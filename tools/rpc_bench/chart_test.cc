#include "tools/rpc_bench/chart.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace verbena::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

Chart Sample() {
  Chart chart;
  chart.title = "a < b";
  chart.x_ticks = {{1, "one"}, {100, "hundred"}};
  chart.curves = {{.name = "curve", .points = {{1, 2}, {10, 20}, {100, 90}}}};
  return chart;
}

TEST(ChartTest, SpreadsPointsEvenlyOnLogarithmicAxes) {
  // x goes from 80 to 630, y from 360 for 1 to 44 for 100.
  EXPECT_THAT(Draw(Sample(), 0), HasSubstr("points=\"80.0,312.4 355.0,154.4 "
                                           "630.0,51.2 \""));
}

TEST(ChartTest, EscapesText) {
  EXPECT_THAT(Draw(Sample(), 0), HasSubstr(">a &lt; b</text>"));
}

TEST(ChartTest, LeavesOutLinesBeyondTheAxis) {
  Chart chart = Sample();
  chart.lines = {{10, "here"}, {1000, "there"}};
  EXPECT_THAT(Draw(chart, 0), HasSubstr(">here<"));
  EXPECT_THAT(Draw(chart, 0), Not(HasSubstr(">there<")));
}

TEST(ChartTest, OfASinglePointHasAxes) {
  Chart chart = Sample();
  chart.x_ticks = {{64, "64 B"}};
  chart.curves = {{.name = "curve", .points = {{64, 10}}}};
  EXPECT_THAT(Draw(chart, 0), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace verbena::bench
