#include "tools/rpc_bench/plot.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/rpc_bench/report.h"
#include "tools/rpc_bench/workload.h"

namespace verbena::bench {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Result Measured(const std::string& layer, uint64_t size_bytes,
                int outstanding) {
  Result result;
  result.layer = layer;
  result.measured.size_bytes = size_bytes;
  result.measured.outstanding = outstanding;
  for (uint64_t i = 1; i <= 2000; ++i) result.latencies.Record(i * 100);
  result.successes = 2000;
  result.p50_us = 100;
  result.bytes_per_s = 1e6 * size_bytes;
  return result;
}

TEST(PlotTest, HasThreeChartsWithACurveForEachLayer) {
  Report report;
  report.device = "soft";
  for (const char* layer : {"verbs", "rpc"}) {
    for (int outstanding : {1, 32}) {
      report.results.push_back(Measured(layer, 64, outstanding));
      report.results.push_back(Measured(layer, 65536, outstanding));
    }
  }
  const std::string svg = Plot(report, {{8192, "rendezvous"}});
  EXPECT_THAT(svg, StartsWith("<svg "));
  for (const char* text :
       {"rpc_bench on soft", "Latency by percentile: echo of 64 B, 1 outst",
        "Median latency by size", "Bandwidth by size: 32 outstanding",
        ">verbs<", ">rpc<", ">99.9<", ">64 KiB<", ">rendezvous<", "</svg>"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  // Of 2000 calls none says what one in 10000 takes.
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(PlotTest, OfNothingIsStillAPicture) {
  EXPECT_THAT(Plot(Report(), {}), HasSubstr("</svg>"));
  Report report;
  report.results.push_back(Measured("rpc", 0, 1));
  report.results.back().successes = 0;
  EXPECT_THAT(Plot(report, {}), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace verbena::bench
