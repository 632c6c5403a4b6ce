#include "tools/rpc_bench/report.h"

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/rpc_bench/workload.h"

namespace verbena::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

Result Measured(const std::string& layer, uint64_t size_bytes, int outstanding,
                double p50_us, double calls_per_s, Op op = Op::kEcho) {
  Result result;
  result.layer = layer;
  result.measured.op = op;
  result.measured.size_bytes = size_bytes;
  result.measured.outstanding = outstanding;
  result.successes = 1000;
  result.p50_us = p50_us;
  result.p90_us = 2;
  result.p99_us = 2.5;
  result.p999_us = 31.0;
  result.max_us = 99;
  result.calls_per_s = calls_per_s;
  result.bytes_per_s = result.calls_per_s * size_bytes;
  result.cpu_us_per_call = 0.5;
  return result;
}

Result Failed(uint64_t size_bytes, int outstanding) {
  Result result;
  result.layer = "rpc";
  result.measured.size_bytes = size_bytes;
  result.measured.outstanding = outstanding;
  result.errors = 7;
  result.first_error = absl::UnavailableError("gone");
  return result;
}

Report Of(std::vector<Result> results) {
  Report report;
  report.device = "soft";
  report.client_processor = 0;
  report.server_processor = 1;
  report.results = std::move(results);
  return report;
}

TEST(TableTest, SaysWhichPayloadsTravelledBesideTheMessage) {
  Result small = Measured("rpc", 64, 1, 1, 1e6);
  EXPECT_THAT(Table(Of({small})), Not(HasSubstr("attachments")));
  Result large = Measured("rpc", 65536, 1, 1, 1e6);
  large.measured.attachment = true;
  EXPECT_THAT(Table(Of({small, large})),
              HasSubstr("rpc payloads that travel as attachments: 64 KiB\n"));
}

TEST(TableTest, ComparesTheLayersOfEachSize) {
  EXPECT_EQ(
      Table(Of({Measured("verbs", 64, 1, 0.5, 1e6),
                Measured("rpc", 64, 1, 1.25, 5e5),
                Measured("verbs", 64, 32, 9, 4e6),
                Measured("rpc", 64, 32, 9, 2e6)})),
      "device: soft; both sides poll; client on processor 0, server on "
      "processor 1\n"
      "\n"
      "                   1 outstanding, us                                   "
      "  32 outstanding\n"
      " payload layer           p50      p90      p99    p99.9       max  "
      "ratio     calls/s      MB/s  ratio   cpu us  errors\n"
      "    64 B verbs          0.50     2.00     2.50    31.00     99.00   "
      "1.00     4000000     256.0   1.00     0.50       0\n"
      "         rpc            1.25     2.00     2.50    31.00     99.00   "
      "2.50     2000000     128.0   0.50     0.50       0\n");
}

TEST(TableTest, TakesBothHalvesFromTheOnlyDepth) {
  const std::string table = Table(Of({Measured("rpc", 64, 8, 1.25, 2e6)}));
  EXPECT_THAT(table, HasSubstr(" 8 outstanding, us"));
  EXPECT_THAT(table, HasSubstr("99.00      -     2000000     128.0      - "));
}

TEST(TableTest, ShowsWhatOfTheRawBandwidthIsReached) {
  // As much time as a READ and a WRITE take: all of it.
  const std::string table =
      Table(Of({Measured("rpc", 1 << 20, 32, 900, 1000),
                Measured("verbs", 1 << 20, 32, 900, 2000, Op::kWrite),
                Measured("verbs", 1 << 20, 32, 900, 2000, Op::kRead)}));
  EXPECT_THAT(table, HasSubstr("raw streams, 32 outstanding, MB/s"));
  EXPECT_THAT(
      table, HasSubstr("   1 MiB     2097.2     2097.2          -       1.00"));
}

TEST(TableTest, ShowsErrorsAndTheirReason) {
  const std::string table = Table(Of({Failed(64, 1), Failed(64, 32)}));
  EXPECT_THAT(table, HasSubstr("      14\n"));
  EXPECT_THAT(table, HasSubstr("rpc echo, 64 B, 32 outstanding: 7 errors, the "
                               "first: UNAVAILABLE: gone\n"));
}

TEST(TableTest, SaysWhatAnOpenLoopCouldNotDo) {
  Result late = Measured("rpc", 64, 32, 1, 1);
  late.unstarted = 12;
  EXPECT_THAT(Table(Of({late})), HasSubstr("12 calls were never started"));
}

TEST(TableTest, ShowsCountersThatGrewAndAlwaysThoseOfReceiverNotReady) {
  Report report = Of({Measured("rpc", 64, 1, 1, 1)});
  report.counters = {{"sent_pkts", 7}, {"duplicates", 0}, {"rcvd_rnr_err", 0}};
  const std::string table = Table(report);
  EXPECT_THAT(table, HasSubstr("counter sent_pkts: +7\n"));
  EXPECT_THAT(table, HasSubstr("counter rcvd_rnr_err: +0\n"));
  EXPECT_THAT(table, Not(HasSubstr("duplicates")));
}

TEST(RatioTest, NeedsTheSameCaseAtTheVerbsLayer) {
  const Report report =
      Of({Measured("verbs", 64, 1, 2, 100), Measured("rpc", 64, 1, 3, 50),
          Measured("rpc", 64, 32, 3, 50), Failed(64, 1)});
  EXPECT_DOUBLE_EQ(LatencyRatio(report, report.results[1]), 1.5);
  EXPECT_DOUBLE_EQ(RateRatio(report, report.results[1]), 0.5);
  EXPECT_LT(LatencyRatio(report, report.results[2]), 0);
  EXPECT_LT(RateRatio(report, report.results[3]), 0);
}

}  // namespace
}  // namespace verbena::bench
