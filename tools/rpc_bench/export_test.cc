#include "tools/rpc_bench/export.h"

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "tools/rpc_bench/json_report.pb.h"
#include "tools/rpc_bench/report.h"
#include "tools/rpc_bench/workload.h"

namespace verbena::bench {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Report Sample() {
  Report report;
  report.device = "soft";
  report.server_processor = 1;
  Result& result = report.results.emplace_back();
  result.layer = "rpc";
  result.measured.size_bytes = 64;
  result.successes = 1000;
  result.p50_us = 1.25;
  result.p90_us = 2;
  result.p99_us = 2.5;
  result.p999_us = 31.0;
  result.max_us = 40;
  result.calls_per_s = 2'000'000;
  result.bytes_per_s = 128'000'000;
  report.counters = {{"rcvd_rnr_err", 3}};
  return report;
}

TEST(JsonTest, IsOneObjectOnALine) {
  EXPECT_EQ(
      Json(Sample()),
      "{\"device\": \"soft\", \"client_processor\": null, "
      "\"server_processor\": 1, \"results\": [{\"layer\": \"rpc\", \"op\": "
      "\"echo\", \"mode\": \"polled\", \"payload\": \"message\", "
      "\"size_bytes\": 64, \"outstanding\": 1, "
      "\"rate_per_s\": null, \"p50_us\": 1.250, \"p90_us\": 2.000, \"p99_us\": "
      "2.500, \"p999_us\": 31.000, \"max_us\": 40.000, \"calls_per_s\": "
      "2000000.0, \"bytes_per_s\": 128000000, \"cpu_us_per_call\": null, "
      "\"p50_ratio_to_verbs\": null, \"rate_ratio_to_verbs\": null, "
      "\"share_of_raw_bandwidth\": null, \"errors\": 0, \"unstarted\": 0}], "
      "\"counters\": {\"rcvd_rnr_err\": 3}}\n");
}

TEST(JsonTest, FitsItsSchema) {
  Report report = Sample();
  report.results.push_back(report.results[0]);
  JsonReport parsed;
  const auto status =
      google::protobuf::util::JsonStringToMessage(Json(report), &parsed);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(parsed.results_size(), 2);
  EXPECT_FALSE(parsed.has_client_processor());
  EXPECT_EQ(parsed.counters().at("rcvd_rnr_err"), 3);
}

TEST(JsonTest, HasNoPercentilesWithoutASuccess) {
  Report report = Sample();
  report.results[0].successes = 0;
  report.results[0].errors = 7;
  const std::string json = Json(report);
  EXPECT_THAT(json, HasSubstr("\"p50_us\": null, \"p90_us\": null"));
  EXPECT_THAT(json, HasSubstr("\"errors\": 7"));
}

TEST(JsonTest, EscapesNames) {
  Report report;
  report.device = "a\"b\\c\n";
  EXPECT_THAT(Json(report), HasSubstr("{\"device\": \"a\\\"b\\\\c\\u000a\", "));
}

TEST(CsvTest, HasALineOfNamesAndALineForEachResult) {
  EXPECT_EQ(
      Csv(Sample()),
      "layer,op,mode,payload,size_bytes,outstanding,rate_per_s,p50_us,p90_us,"
      "p99_us,"
      "p999_us,max_us,calls_per_s,bytes_per_s,cpu_us_per_call,"
      "p50_ratio_to_verbs,rate_ratio_to_verbs,share_of_raw_bandwidth,errors,"
      "unstarted\n"
      "\"rpc\",\"echo\",\"polled\",\"message\",64,1,,1.250,2.000,2.500,31.000,"
      "40.000,"
      "2000000.0,128000000,,,,,0,0\n");
  EXPECT_EQ(Csv(Report()), "");
}

}  // namespace
}  // namespace verbena::bench
