#include "tools/rpc_bench/plot.h"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace verbena::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

Outcome Measured(const std::string& layer, uint32_t size_bytes,
                 uint32_t outstanding) {
  Outcome outcome;
  outcome.result.set_layer(layer);
  outcome.result.set_op("echo");
  outcome.result.set_size_bytes(size_bytes);
  outcome.result.set_outstanding(outstanding);
  for (uint64_t i = 1; i <= 2000; ++i) outcome.latencies.Record(i * 100);
  outcome.result.set_p50_us(100);
  outcome.result.set_bytes_per_s(1e6 * size_bytes);
  return outcome;
}

std::vector<Outcome> TwoLayers() {
  std::vector<Outcome> outcomes;
  for (const char* layer : {"verbs", "rpc"}) {
    for (uint32_t outstanding : {1, 32}) {
      outcomes.push_back(Measured(layer, 64, outstanding));
      outcomes.push_back(Measured(layer, 65536, outstanding));
    }
  }
  return outcomes;
}

TEST(PlotTest, HasThreeChartsWithACurveForEachLayer) {
  Report report;
  report.set_device("it's");
  const std::string script = PlotScript(
      TwoLayers(), report, {{8192, "rendezvous"}, {1 << 20, "beyond"}}, "f");
  for (const char* text :
       {"title 'rpc_bench on it''s, both sides poll'", "set output 'f'",
        "Latency by percentile: echo of 64 B, 1 outstanding",
        "Median latency by size", "Bandwidth by size: 32 outstanding",
        "title 'verbs'", "title 'rpc'", "'99.9' 1000", "'64 KiB' 65536",
        "set label 'rendezvous'", "\n64 100\n65536 100\ne\n"}) {
    EXPECT_THAT(script, HasSubstr(text));
  }
  EXPECT_THAT(script, Not(HasSubstr("beyond")));
  // Of 2000 calls none says what one in 10000 takes.
  EXPECT_THAT(script, HasSubstr("\n1000 200\n"));
  EXPECT_THAT(script, Not(HasSubstr("\n10000 ")));
}

TEST(PlotTest, LeavesOutWhatHasNoPoint) {
  Outcome failed;
  failed.result.set_op("echo");
  EXPECT_THAT(PlotScript({failed}, Report(), {}, "f"),
              Not(HasSubstr("set title")));
  EXPECT_THAT(PlotScript({}, Report(), {}, "f"), Not(HasSubstr("set title")));
}

TEST(PlotTest, GnuplotDrawsItIfItIsThere) {
  const std::string file = testing::TempDir() + "/plot_test.svg";
  const absl::Status drawn = RunGnuplot(
      PlotScript(TwoLayers(), Report(), {{8192, "rendezvous"}}, file));
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
