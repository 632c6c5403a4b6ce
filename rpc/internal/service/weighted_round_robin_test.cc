#include "rpc/internal/service/weighted_round_robin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "rpc/internal/service/fake_server.h"
#include "rpc/load_report.h"

namespace verbena::internal {
namespace {

using testing::ElementsAre;

class WeightedRoundRobinTest : public testing::Test {
 protected:
  void SetServers(const std::vector<uint32_t>& weights) {
    set_.servers.clear();
    for (const uint32_t weight : weights) {
      set_.servers.push_back(std::make_unique<FakeServer>(
          absl::StrCat("10.0.0.", set_.servers.size(), ":7471"), weight));
    }
    set_.Tell(&balancer_);
  }
  std::vector<int> Picks(int count) { return set_.Picks(&balancer_, count); }
  // Each server reports its load, now and after the blackout.
  void Report(const std::vector<LoadReport>& loads) {
    for (int round = 0; round < 2; ++round) {
      for (size_t i = 0; i < loads.size(); ++i) {
        balancer_.OnResult(i, {.time = now_, .load = &loads[i]});
      }
      now_ += absl::Seconds(10);
    }
    balancer_.OnResult(0, {.time = now_});
  }

  WeightedRoundRobin balancer_{WeightedRoundRobin::Options(), /*seed=*/7};
  BalancedServers set_{0};
  absl::Time now_ = absl::UnixEpoch();
};

TEST_F(WeightedRoundRobinTest, TakesEachByItsWeight) {
  SetServers({1, 2, 4, 1});
  EXPECT_THAT(Picks(800), ElementsAre(100, 200, 400, 100));
  SetServers({3, 3});
  EXPECT_THAT(Picks(100), ElementsAre(50, 50));
}

TEST_F(WeightedRoundRobinTest, SpreadsTheTurnsOfEach) {
  SetServers({1, 1, 1, 1, 4});
  // In 16 calls, twice as many as their weights, each light one comes twice.
  for (int round = 0; round < 10; ++round) {
    EXPECT_THAT(Picks(16), ElementsAre(2, 2, 2, 2, 8));
  }
}

TEST_F(WeightedRoundRobinTest, ServesALightServer) {
  SetServers({1, 4000000000});
  EXPECT_GT(Picks(20000)[0], 0);
}

TEST_F(WeightedRoundRobinTest, GoesByTheLoadThatServersReport) {
  SetServers({1, 1, 5});
  Report({{.cpu_utilization = 0.5, .requests_per_second = 100},
          {.cpu_utilization = 0.25, .requests_per_second = 100},
          {.cpu_utilization = 1, .requests_per_second = 100}});
  EXPECT_THAT(Picks(700), ElementsAre(200, 400, 100));
  EXPECT_EQ(set_.servers[1]->load_weight(), 400);
}

TEST_F(WeightedRoundRobinTest, TakesWhatTheApplicationSaysFirst) {
  SetServers({1, 1});
  Report({{.cpu_utilization = 0.1,
           .application_utilization = 0.5,
           .requests_per_second = 100},
          {.cpu_utilization = 0.5, .requests_per_second = 100}});
  EXPECT_THAT(Picks(200), ElementsAre(100, 100));
}

TEST_F(WeightedRoundRobinTest, AServerWithErrorsGetsFewerCalls) {
  SetServers({1, 1});
  Report({{.cpu_utilization = 0.5,
           .requests_per_second = 100,
           .errors_per_second = 50},
          {.cpu_utilization = 0.5, .requests_per_second = 100}});
  EXPECT_THAT(Picks(300), ElementsAre(100, 200));
}

TEST_F(WeightedRoundRobinTest, AServerThatReportsNothingHasTheMeanWeight) {
  SetServers({1, 1, 1});
  Report({{.cpu_utilization = 0.5, .requests_per_second = 100},
          {.cpu_utilization = 0.5, .requests_per_second = 300},
          {}});
  const std::vector<int> picks = Picks(600);
  EXPECT_NEAR(picks[0], 100, 2);
  EXPECT_NEAR(picks[1], 300, 2);
  EXPECT_NEAR(picks[2], 200, 2);
}

TEST_F(WeightedRoundRobinTest, NoReportDrawsAllCalls) {
  SetServers({1, 1, 1});
  Report({{.cpu_utilization = 1e-9, .requests_per_second = 1e9},
          {.cpu_utilization = 0.5, .requests_per_second = 100},
          {.cpu_utilization = 0.5, .requests_per_second = 100}});
  const std::vector<int> picks = Picks(3200);
  EXPECT_NEAR(picks[1], 100, 5);
  EXPECT_NEAR(picks[2], 100, 5);
}

TEST_F(WeightedRoundRobinTest, ReportsThatAreBeyondAllNumbersDoNotCount) {
  SetServers({1, 1, 1});
  const LoadReport endless{.cpu_utilization = 1e-10,
                           .requests_per_second = 1e300};
  Report({endless, endless, {}});
  EXPECT_THAT(Picks(30), ElementsAre(10, 10, 10));
  // Each weight is finite, but not their sum.
  const LoadReport huge{.cpu_utilization = 1, .requests_per_second = 1e308};
  Report({huge, huge, huge});
  EXPECT_THAT(Picks(30), ElementsAre(10, 10, 10));
}

TEST_F(WeightedRoundRobinTest, OneReportAloneIsNotTaken) {
  SetServers({1, 1});
  Report({{.cpu_utilization = 0.01, .requests_per_second = 100}, {}});
  EXPECT_THAT(Picks(100), ElementsAre(50, 50));
}

TEST_F(WeightedRoundRobinTest, AReportIsNotTakenBeforeTheBlackoutIsOver) {
  SetServers({1, 1});
  const LoadReport light{.cpu_utilization = 0.1, .requests_per_second = 100};
  const LoadReport heavy{.cpu_utilization = 0.4, .requests_per_second = 100};
  for (int second = 0; second < 9; ++second) {
    now_ += absl::Seconds(1);
    balancer_.OnResult(0, {.time = now_, .load = &light});
    balancer_.OnResult(1, {.time = now_, .load = &heavy});
  }
  EXPECT_THAT(Picks(100), ElementsAre(50, 50));
  now_ += absl::Seconds(2);
  balancer_.OnResult(0, {.time = now_});
  EXPECT_THAT(Picks(100), ElementsAre(80, 20));
}

TEST_F(WeightedRoundRobinTest, AReportExpires) {
  SetServers({1, 1});
  Report({{.cpu_utilization = 0.1, .requests_per_second = 100},
          {.cpu_utilization = 0.9, .requests_per_second = 100}});
  now_ += absl::Minutes(4);
  balancer_.OnResult(0, {.time = now_});
  EXPECT_THAT(Picks(100), ElementsAre(50, 50));
}

}  // namespace
}  // namespace verbena::internal
