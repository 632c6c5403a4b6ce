#include "rpc/internal/service/outlier_detection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rpc/internal/service/fake_server.h"
#include "rpc/internal/service/round_robin.h"

namespace verbena::internal {
namespace {

using testing::ElementsAre;

class OutlierDetectionTest : public testing::Test {
 protected:
  void Use(const OutlierDetection::Options& options) {
    balancer_ = std::make_unique<OutlierDetection>(
        options, std::make_unique<RoundRobin>(0), /*seed=*/7);
    set_.Tell(balancer_.get());
    EndInterval();
  }
  // Calls that end at a server.
  void End(size_t position, int good, int bad,
           absl::Duration latency = absl::Milliseconds(1)) {
    for (int i = 0; i < good + bad; ++i) {
      balancer_->OnResult(position,
                          {.code = i < good ? absl::StatusCode::kOk
                                            : absl::StatusCode::kUnavailable,
                           .time = now_,
                           .latency = latency});
    }
  }
  // The first result behind the interval ends it.
  void EndInterval() {
    now_ += absl::Seconds(10);
    End(0, 1, 0);
  }
  std::vector<int> Picks(int count) {
    return set_.Picks(balancer_.get(), count);
  }
  // Positions of the ejected.
  std::vector<size_t> Ejected() {
    std::vector<size_t> ejected;
    const std::vector<int> picks = Picks(100);
    for (size_t i = 0; i < set_.servers.size(); ++i) {
      EXPECT_EQ(set_.servers[i]->ejected(), picks[i] == 0) << i;
      if (picks[i] == 0) ejected.push_back(i);
    }
    return ejected;
  }

  std::unique_ptr<OutlierDetection> balancer_;
  BalancedServers set_{5};
  absl::Time now_ = absl::UnixEpoch();
};

const OutlierDetection::Options kByPercentage{
    .max_ejection_percent = 50, .failure_percentage = {{.threshold = 60}}};

TEST_F(OutlierDetectionTest, EjectsWhoFailsMoreThanTheThreshold) {
  Use(kByPercentage);
  for (size_t i = 0; i < 4; ++i) End(i, 50, 50);
  End(4, 30, 70);
  EndInterval();
  EXPECT_THAT(Ejected(), ElementsAre(4));
}

TEST_F(OutlierDetectionTest, LooksOnlyAtServersWithEnoughCalls) {
  Use(kByPercentage);
  for (size_t i = 0; i < 4; ++i) End(i, 100, 0);
  End(4, 0, 49);
  EndInterval();
  EXPECT_THAT(Ejected(), ElementsAre());
}

TEST_F(OutlierDetectionTest, IsSilentWhileTooFewServersHaveCalls) {
  Use(kByPercentage);
  for (size_t i = 0; i < 3; ++i) End(i, 100, 0);
  End(4, 0, 100);
  EndInterval();
  EXPECT_THAT(Ejected(), ElementsAre());
}

TEST_F(OutlierDetectionTest, EjectsNoMoreThanItMay) {
  Use(kByPercentage);
  for (size_t i = 0; i < 5; ++i) End(i, 0, 100);
  EndInterval();
  // The third is begun at 40 percent, the fourth would be at 60.
  EXPECT_THAT(Ejected(), ElementsAre(0, 1, 2));
}

TEST_F(OutlierDetectionTest, NeverEjectsTheLastServer) {
  OutlierDetection::Options options = kByPercentage;
  options.max_ejection_percent = 100;
  Use(options);
  for (size_t i = 0; i < 5; ++i) End(i, 0, 100);
  EndInterval();
  EXPECT_THAT(Ejected(), ElementsAre(0, 1, 2, 3));
  // The last one leaves.
  set_.servers.pop_back();
  set_.Tell(balancer_.get());
  EXPECT_THAT(Ejected(), ElementsAre(1, 2, 3));
}

TEST_F(OutlierDetectionTest, EjectsOutliersBySuccessRate) {
  Use({.max_ejection_percent = 50, .success_rate = {{.stdev_factor = 1500}}});
  for (size_t i = 0; i < 4; ++i) End(i, 99, 1);
  End(4, 90, 10);
  EndInterval();
  EXPECT_THAT(Ejected(), ElementsAre(4));
}

TEST_F(OutlierDetectionTest, AllThatFailAlikeAreNoOutliers) {
  Use({.max_ejection_percent = 50, .success_rate = {{}}});
  for (size_t i = 0; i < 5; ++i) End(i, 50, 50);
  EndInterval();
  EXPECT_THAT(Ejected(), ElementsAre());
}

TEST_F(OutlierDetectionTest, EjectsWhoIsSlow) {
  Use({.max_ejection_percent = 50, .latency = {{}}});
  for (size_t i = 0; i < 4; ++i) End(i, 100, 0, absl::Milliseconds(2));
  End(4, 100, 0, absl::Milliseconds(7));
  EndInterval();
  EXPECT_THAT(Ejected(), ElementsAre(4));
}

TEST_F(OutlierDetectionTest, EjectsAtOnceAfterFailuresInARow) {
  Use({.max_ejection_percent = 50, .consecutive_failures = {{}}});
  End(2, 0, 4);
  End(2, 1, 4);
  EXPECT_THAT(Ejected(), ElementsAre());
  End(2, 0, 5);
  EXPECT_THAT(Ejected(), ElementsAre(2));
}

TEST_F(OutlierDetectionTest, EjectsOnlyAsOftenAsItIsEnforced) {
  OutlierDetection::Options options = kByPercentage;
  options.failure_percentage->rule.enforcement_percentage = 0;
  Use(options);
  for (size_t i = 0; i < 4; ++i) End(i, 100, 0);
  End(4, 0, 100);
  EndInterval();
  EXPECT_THAT(Ejected(), ElementsAre());
}

// Ejects the last server.
void EjectLast(OutlierDetection* balancer, absl::Time now) {
  for (int i = 0; i < 5; ++i) {
    balancer->OnResult(4,
                       {.code = absl::StatusCode::kUnavailable, .time = now});
  }
}

TEST_F(OutlierDetectionTest, AnEjectedServerIsBackInTime) {
  Use({.consecutive_failures = {{}}});
  EjectLast(balancer_.get(), now_);
  EndInterval();
  EndInterval();
  EXPECT_THAT(Ejected(), ElementsAre(4));
  EndInterval();
  EXPECT_THAT(Ejected(), ElementsAre());
}

TEST_F(OutlierDetectionTest, EjectsForLongerEachTime) {
  Use({.consecutive_failures = {{}}});
  EjectLast(balancer_.get(), now_);
  for (int i = 0; i < 3; ++i) EndInterval();
  EXPECT_THAT(Ejected(), ElementsAre());
  EjectLast(balancer_.get(), now_);
  for (int i = 0; i < 5; ++i) EndInterval();
  EXPECT_THAT(Ejected(), ElementsAre(4));
  EndInterval();
  EXPECT_THAT(Ejected(), ElementsAre());
}

TEST_F(OutlierDetectionTest, AServerThatWasAwayIsStillEjected) {
  Use({.consecutive_failures = {{}}});
  EjectLast(balancer_.get(), now_);
  auto last = std::move(set_.servers.back());
  set_.servers.pop_back();
  set_.Tell(balancer_.get());
  EXPECT_THAT(Ejected(), ElementsAre());
  set_.servers.push_back(std::move(last));
  set_.Tell(balancer_.get());
  EXPECT_THAT(Ejected(), ElementsAre(4));
}

TEST_F(OutlierDetectionTest, ForgetsServersThatHaveLeft) {
  Use({.consecutive_failures = {{}}});
  EjectLast(balancer_.get(), now_);
  auto last = std::move(set_.servers.back());
  set_.servers.pop_back();
  set_.Tell(balancer_.get());
  for (int i = 0; i < 5; ++i) EndInterval();
  set_.servers.push_back(std::move(last));
  set_.Tell(balancer_.get());
  EXPECT_THAT(Ejected(), ElementsAre());
}

}  // namespace
}  // namespace verbena::internal
