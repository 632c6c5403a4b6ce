#include "tools/rpc_bench/report.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace verbena::bench {
namespace {

using testing::HasSubstr;

Result Measured(uint64_t size_bytes, int outstanding) {
  Result result;
  result.layer = "rpc";
  result.size_bytes = size_bytes;
  result.outstanding = outstanding;
  result.successes = 1000;
  result.p50_us = 1.25;
  result.p99_us = 2.5;
  result.p999_us = 31.0;
  result.calls_per_s = 2'000'000;
  result.bytes_per_s = result.calls_per_s * size_bytes;
  return result;
}

Result Failed(uint64_t size_bytes, int outstanding) {
  Result result;
  result.layer = "rpc";
  result.size_bytes = size_bytes;
  result.outstanding = outstanding;
  result.errors = 7;
  result.first_error = absl::UnavailableError("gone");
  return result;
}

TEST(TableTest, HasALineForEachSize) {
  EXPECT_EQ(
      Table("soft", {Measured(64, 1), Measured(64, 32), Measured(4096, 1),
                     Measured(4096, 32)}),
      "device: soft\n"
      "\n"
      "            1 outstanding                     32 outstanding\n"
      "   payload      p50 us     p99 us   p99.9 us       calls/s         MB/s"
      "   errors\n"
      "      64 B        1.25       2.50      31.00       2000000        128.0"
      "        0\n"
      "     4 KiB        1.25       2.50      31.00       2000000       8192.0"
      "        0\n");
}

TEST(TableTest, TakesBothHalvesFromTheOnlyDepth) {
  const std::string table = Table("soft", {Measured(64, 8)});
  EXPECT_THAT(table, HasSubstr(" 8 outstanding"));
  EXPECT_THAT(table, HasSubstr("64 B        1.25       2.50      31.00       "
                               "2000000"));
}

TEST(TableTest, ShowsErrorsAndTheirReason) {
  const std::string table = Table("soft", {Failed(64, 1), Failed(64, 32)});
  EXPECT_THAT(table, HasSubstr("64 B           -          -          -         "
                               "    0          0.0       14\n"));
  EXPECT_THAT(table, HasSubstr("64 B, 32 outstanding: 7 errors, the first: "
                               "UNAVAILABLE: gone\n"));
}

TEST(JsonTest, IsOneObjectOnALine) {
  EXPECT_EQ(Json("soft", {Measured(64, 1)}),
            "{\"device\": \"soft\", \"results\": [{\"layer\": \"rpc\", "
            "\"size_bytes\": 64, \"outstanding\": 1, \"p50_us\": 1.250, "
            "\"p99_us\": 2.500, \"p999_us\": 31.000, \"calls_per_s\": "
            "2000000.0, \"bytes_per_s\": 128000000, \"errors\": 0}]}\n");
}

TEST(JsonTest, SeparatesResultsByCommas) {
  EXPECT_THAT(Json("soft", {Measured(64, 1), Measured(64, 32)}),
              HasSubstr("\"errors\": 0}, {\"layer\""));
}

TEST(JsonTest, HasNoPercentilesWithoutASuccess) {
  EXPECT_THAT(Json("soft", {Failed(64, 1)}),
              HasSubstr("\"p50_us\": null, \"p99_us\": null, \"p999_us\": "
                        "null, \"calls_per_s\": 0.0, \"bytes_per_s\": 0, "
                        "\"errors\": 7"));
}

TEST(JsonTest, EscapesNames) {
  EXPECT_THAT(
      Json("a\"b\\c\n", {}),
      HasSubstr("{\"device\": \"a\\\"b\\\\c\\u000a\", \"results\": []}"));
}

}  // namespace
}  // namespace verbena::bench
