#include "rpc/load_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace verbena {
namespace {

TEST(LoadReportTest, ReadsWhatItWrites) {
  const LoadReport load{.cpu_utilization = 0.25,
                        .memory_utilization = 0.5,
                        .application_utilization = 0.75,
                        .requests_per_second = 1200,
                        .errors_per_second = 3};
  const auto read = ReadLoadReport(WriteLoadReport(load));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->cpu_utilization, 0.25);
  EXPECT_EQ(read->memory_utilization, 0.5);
  EXPECT_EQ(read->application_utilization, 0.75);
  EXPECT_EQ(read->requests_per_second, 1200);
  EXPECT_EQ(read->errors_per_second, 3);
}

// As Envoy's and gRPC's OrcaLoadReport has it: a double under number 1.
TEST(LoadReportTest, HasTheWireFormatOfOrca) {
  const std::string half("\x09\x00\x00\x00\x00\x00\x00\xe0\x3f", 9);
  EXPECT_EQ(WriteLoadReport({.cpu_utilization = 0.5}), half);
}

TEST(LoadReportTest, SkipsFieldsThatItDoesNotKnow) {
  // rps, number 3, a varint; then cpu_utilization.
  const std::string report("\x18\x07\x09\x00\x00\x00\x00\x00\x00\xe0\x3f", 11);
  const auto read = ReadLoadReport(report);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->cpu_utilization, 0.5);
}

TEST(LoadReportTest, RefusesGarbage) {
  EXPECT_EQ(ReadLoadReport("\x09half").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(LoadReportTest, RefusesNumbersThatAreNoLoad) {
  for (const double wrong : {-1.0, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(ReadLoadReport(WriteLoadReport({.cpu_utilization = wrong}))
                  .status()
                  .code(),
              absl::StatusCode::kInvalidArgument)
        << wrong;
  }
}

}  // namespace
}  // namespace verbena
