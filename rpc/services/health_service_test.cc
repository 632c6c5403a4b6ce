#include "rpc/services/health_service.h"

#include <string>

#include "gtest/gtest.h"

namespace verbena {
namespace {

using grpc::health::v1::HealthCheckResponse;

class HealthServiceTest : public testing::Test {
 protected:
  std::string Check(const std::string& service) {
    return HealthCheckResponse::ServingStatus_Name(
        health_.GetServingStatus(service));
  }

  HealthService health_;
};

TEST_F(HealthServiceTest, AtFirstTheServerServesAndNothingElseIsKnown) {
  EXPECT_EQ(Check(""), "SERVING");
  EXPECT_EQ(Check("some.Service"), "SERVICE_UNKNOWN");
}

TEST_F(HealthServiceTest, EachServiceIsAsWasSaidLast) {
  health_.SetServingStatus("some.Service", true);
  health_.SetServingStatus("other.Service", false);
  EXPECT_EQ(Check("some.Service"), "SERVING");
  EXPECT_EQ(Check("other.Service"), "NOT_SERVING");
  health_.SetServingStatus("some.Service", false);
  EXPECT_EQ(Check("some.Service"), "NOT_SERVING");
  EXPECT_EQ(Check(HealthService::kServer.data()), "SERVING");
}

TEST_F(HealthServiceTest, WhatIsSaidOfAllHoldsForThoseThatAreKnown) {
  health_.SetServingStatus("some.Service", true);
  health_.SetServingStatus(false);
  EXPECT_EQ(Check(""), "NOT_SERVING");
  EXPECT_EQ(Check("some.Service"), "NOT_SERVING");
  EXPECT_EQ(Check("other.Service"), "SERVICE_UNKNOWN");
  health_.SetServingStatus(true);
  EXPECT_EQ(Check(""), "SERVING");
  EXPECT_EQ(Check("some.Service"), "SERVING");
}

TEST_F(HealthServiceTest, AfterShutdownNothingServesAnyMore) {
  health_.SetServingStatus("some.Service", true);
  health_.Shutdown();
  EXPECT_EQ(Check(""), "NOT_SERVING");
  health_.SetServingStatus(true);
  health_.SetServingStatus("some.Service", true);
  health_.SetServingStatus("new.Service", true);
  EXPECT_EQ(Check(""), "NOT_SERVING");
  EXPECT_EQ(Check("some.Service"), "NOT_SERVING");
  EXPECT_EQ(Check("new.Service"), "NOT_SERVING");
}

}  // namespace
}  // namespace verbena
