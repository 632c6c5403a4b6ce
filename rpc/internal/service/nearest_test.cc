#include "rpc/internal/service/nearest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "rpc/internal/service/fake_server.h"
#include "rpc/internal/service/outlier_detection.h"
#include "rpc/internal/service/round_robin.h"

namespace verbena::internal {
namespace {

using testing::ElementsAre;

// A balancer for each distance.
template <typename Make>
Nearest::Children Children(Make make) {
  Nearest::Children children;
  for (auto& child : children) child = make();
  return children;
}

class NearestTest : public testing::Test {
 protected:
  void Add(const Locality& locality) {
    set_.servers.push_back(std::make_unique<FakeServer>(ServerAddress{
        .address = std::to_string(set_.servers.size()), .locality = locality}));
    set_.Tell(&nearest_);
  }
  std::vector<int> Picks(int count) { return set_.Picks(&nearest_, count); }

  Nearest nearest_{{.here = {"eu", "a", "r7"}, .max_open_calls = 10},
                   Children([] { return std::make_unique<RoundRobin>(7); })};
  BalancedServers set_{0};
};

TEST_F(NearestTest, TakesTheNearestThereAre) {
  Add({"us", "a", "r7"});
  EXPECT_THAT(Picks(4), ElementsAre(4));
  Add({"eu", "b", "r7"});
  EXPECT_THAT(Picks(4), ElementsAre(0, 4));
  Add({"eu", "a", "r8"});
  EXPECT_THAT(Picks(4), ElementsAre(0, 0, 4));
  Add({"eu", "a", "r7"});
  EXPECT_THAT(Picks(4), ElementsAre(0, 0, 0, 4));
  Add({});
  set_.servers[4]->here = true;
  set_.Tell(&nearest_);
  EXPECT_THAT(Picks(4), ElementsAre(0, 0, 0, 0, 4));
}

TEST_F(NearestTest, SpreadsOverThoseThatAreEquallyNear) {
  Add({"eu", "a", "r7"});
  Add({"us", "a", "r7"});
  Add({"eu", "a", "r7"});
  EXPECT_THAT(Picks(4), ElementsAre(2, 0, 2));
}

TEST_F(NearestTest, GoesFurtherWhereTheNearestAreBusy) {
  Add({"eu", "a", "r7"});
  Add({"eu", "b", ""});
  set_.servers[0]->open = 10;
  EXPECT_THAT(Picks(4), ElementsAre(0, 4));
  set_.servers[1]->open = 10;
  EXPECT_THAT(Picks(4), ElementsAre(4, 0));
}

TEST_F(NearestTest, UnknownPlacesAreFar) {
  Add({});
  Add({"eu", "", ""});
  EXPECT_THAT(Picks(4), ElementsAre(0, 4));
}

TEST(NearestOfNowhereTest, AllServersAreEquallyFar) {
  Nearest nearest({}, Children([] { return std::make_unique<RoundRobin>(7); }));
  const BalancedServers set(2);
  set.Tell(&nearest);
  EXPECT_THAT(set.Picks(&nearest, 4), ElementsAre(2, 2));
}

TEST_F(NearestTest, TellsThePolicyBelowOfItsOwnServers) {
  const OutlierDetection::Options options{
      .max_ejection_percent = 100, .consecutive_failures = {{.threshold = 1}}};
  Nearest nearest({.here = {"eu", "a", "r7"}}, Children([&] {
                    return std::make_unique<OutlierDetection>(
                        options, std::make_unique<RoundRobin>(7), /*seed=*/7);
                  }));
  ASSERT_TRUE(nearest.wants_results());
  Add({"us", "a", ""});
  Add({"eu", "a", ""});
  Add({"eu", "a", ""});
  set_.Tell(&nearest);
  nearest.OnResult(
      1, {.code = absl::StatusCode::kUnavailable, .time = absl::UnixEpoch()});
  EXPECT_THAT(set_.Picks(&nearest, 4), ElementsAre(0, 0, 4));
}

}  // namespace
}  // namespace verbena::internal
