#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/rpc_bench/report.h"

namespace verbena::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

void AddMeasured(const std::string& layer, uint32_t size_bytes,
                 uint32_t outstanding, Report& report) {
  Report::Result& result = *report.add_results();
  result.set_layer(layer);
  result.set_op("echo");
  result.set_size_bytes(size_bytes);
  result.set_outstanding(outstanding);
  result.set_p50_us(100);
  result.set_p90_us(180);
  result.set_p99_us(198);
  result.set_p999_us(199.8);
  result.set_bytes_per_s(1e6 * size_bytes);
}

Report TwoLayers() {
  Report report;
  report.set_device("it's");
  for (const char* layer : {"verbs", "rpc"}) {
    for (uint32_t outstanding : {1, 32}) {
      AddMeasured(layer, 64, outstanding, report);
      AddMeasured(layer, 65536, outstanding, report);
    }
  }
  return report;
}

TEST(PlotTest, HasThreeChartsWithACurveForEachLayer) {
  const std::string script =
      PlotScript(TwoLayers(), {{8192, "rendezvous"}, {1 << 20, "beyond"}}, "f");
  for (const char* text :
       {"title 'rpc_bench on it''s, both sides poll'", "set output 'f'",
        "Latency by percentile: echo of 64 B, 1 outstanding",
        "Median latency by size", "Bandwidth by size: 32 outstanding",
        "title 'verbs'", "title 'rpc'", "'99.9' 1000", "'64 KiB' 65536",
        "set label 'rendezvous'", "\n64 100\n65536 100\ne\n"}) {
    EXPECT_THAT(script, HasSubstr(text));
  }
  EXPECT_THAT(script, Not(HasSubstr("beyond")));
  EXPECT_THAT(script, HasSubstr("\n2 100\n10 180\n100 198\n1000 199.8\ne\n"));
}

TEST(PlotTest, LeavesOutWhatHasNoPoint) {
  Report failed;
  failed.add_results()->set_op("echo");
  EXPECT_THAT(PlotScript(failed, {}, "f"), Not(HasSubstr("set title")));
  EXPECT_THAT(PlotScript(Report(), {}, "f"), Not(HasSubstr("set title")));
}

TEST(PlotTest, GnuplotDrawsItIfItIsThere) {
  const std::string file = testing::TempDir() + "/plot_test.svg";
  const absl::Status drawn =
      RunGnuplot(PlotScript(TwoLayers(), {{8192, "rendezvous"}}, file));
  const absl::Status there = CheckGnuplot();
  EXPECT_EQ(drawn.ok(), there.ok()) << drawn;
  EXPECT_FALSE(RunGnuplot("exit status 3\n").ok());
  if (!there.ok()) {
    EXPECT_THAT(there.message(), HasSubstr("apt-get install gnuplot-nox"));
    return;
  }
  std::ifstream stream(file);
  const std::string svg(std::istreambuf_iterator<char>(stream), {});
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  EXPECT_THAT(svg, HasSubstr("rendezvous"));
}

}  // namespace
}  // namespace verbena::bench
