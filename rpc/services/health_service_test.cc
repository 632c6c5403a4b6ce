#include "rpc/services/health_service.h"

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace verbena {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using grpc::health::v1::HealthListResponse;

class HealthServiceTest : public testing::Test {
 protected:
  // "SERVING", or the code of the status.
  std::string Check(const std::string& service) {
    HealthCheckRequest request;
    request.set_service(service);
    HealthCheckResponse response;
    const absl::Status status = health_.Check(nullptr, &request, &response);
    return status.ok()
               ? HealthCheckResponse::ServingStatus_Name(response.status())
               : absl::StatusCodeToString(status.code());
  }

  HealthService health_;
};

TEST_F(HealthServiceTest, AtFirstTheServerServesAndNothingElseIsKnown) {
  EXPECT_EQ(Check(""), "SERVING");
  EXPECT_EQ(Check("some.Service"), "NOT_FOUND");
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
  EXPECT_EQ(Check("other.Service"), "NOT_FOUND");
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

TEST_F(HealthServiceTest, AHundredServicesAreListedAndMoreAreNot) {
  for (int i = 1; i < 100; ++i) {
    health_.SetServingStatus(absl::StrCat("s.S", i), i % 2 == 0);
  }
  HealthListResponse response;
  ASSERT_EQ(health_.List(nullptr, nullptr, &response), absl::OkStatus());
  EXPECT_EQ(response.statuses_size(), 100);
  EXPECT_EQ(response.statuses().at("").status(), HealthCheckResponse::SERVING);
  EXPECT_EQ(response.statuses().at("s.S7").status(),
            HealthCheckResponse::NOT_SERVING);
  health_.SetServingStatus("one.More", true);
  EXPECT_EQ(health_.List(nullptr, nullptr, &response).code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace verbena
