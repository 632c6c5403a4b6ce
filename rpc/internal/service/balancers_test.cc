#include "rpc/internal/service/balancers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/internal/service/fake_server.h"
#include "rpc/metadata.h"

namespace verbena::internal {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

class BalancersTest : public testing::Test {
 protected:
  void Use(const char* policy, const char* config = "{}") {
    auto chosen = ChoosePolicy({{policy, config}}, {.others = {}, .seed = 7});
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    balancer_ = std::move(chosen->balancer);
  }
  void SetServers(const std::vector<uint32_t>& weights) {
    servers_.clear();
    for (const uint32_t weight : weights) {
      servers_.push_back(std::make_unique<FakeServer>(
          absl::StrCat("10.0.0.", servers_.size(), ":7471"), weight));
    }
    Tell();
  }
  void Tell() {
    std::vector<Balancer::Server*> pointers;
    for (const auto& server : servers_) pointers.push_back(server.get());
    balancer_->SetServers(pointers);
  }
  size_t Pick(const char* key = nullptr) {
    Metadata metadata;
    if (key != nullptr) metadata.emplace("user", key);
    return balancer_->Pick({"a.B/C", &metadata});
  }
  // How often each server was picked.
  std::vector<int> Picks(int count) {
    std::vector<int> picks(servers_.size());
    for (int i = 0; i < count; ++i) ++picks.at(Pick());
    return picks;
  }
  std::string PickAddress(const std::string& key) {
    return servers_.at(Pick(key.c_str()))->address().address;
  }

  std::unique_ptr<Balancer> balancer_;
  std::vector<std::unique_ptr<FakeServer>> servers_;
};

TEST_F(BalancersTest, RoundRobinTakesEachInTurn) {
  Use("round_robin");
  SetServers({1, 5, 1});
  EXPECT_THAT(Picks(9), ElementsAre(3, 3, 3));
  SetServers({1, 1});
  EXPECT_THAT(Picks(10), ElementsAre(5, 5));
}

TEST_F(BalancersTest, LeastRequestRunsFromTheBusyOne) {
  Use("least_request");
  SetServers({1, 1, 1, 1, 1});
  servers_[2]->open = 100;
  const std::vector<int> picks = Picks(10000);
  EXPECT_EQ(picks[2], 0);
  EXPECT_NEAR(picks[0], 2500, 250);
}

TEST_F(BalancersTest, RingHashKeepsAKeyAtItsServer) {
  Use("ring_hash", R"({"requestHashHeader": "user"})");
  SetServers({1, 1, 1, 1});
  const std::string first = PickAddress("ada");
  for (int i = 0; i < 10; ++i) EXPECT_EQ(PickAddress("ada"), first);
}

TEST_F(BalancersTest, RingHashMovesOnlyTheKeysOfAServerThatLeaves) {
  Use("ring_hash", R"({"requestHashHeader": "user"})");
  SetServers({1, 1, 1, 1, 1});
  std::map<std::string, std::string> before;
  std::map<std::string, int> loads;
  for (int i = 0; i < 10000; ++i) {
    const std::string key = absl::StrCat("user-", i);
    ++loads[before[key] = PickAddress(key)];
  }
  for (const auto& [address, load] : loads) EXPECT_NEAR(load, 2000, 500);
  const std::string gone = servers_[1]->address().address;
  servers_.erase(servers_.begin() + 1);
  Tell();
  for (const auto& [key, address] : before) {
    if (address != gone) {
      EXPECT_EQ(PickAddress(key), address);
    }
  }
}

TEST_F(BalancersTest, RingHashGivesMoreKeysToAHeavyServer) {
  Use("ring_hash", R"({"requestHashHeader": "user"})");
  SetServers({1, 3});
  int heavy = 0;
  for (int i = 0; i < 10000; ++i) {
    heavy += Pick(absl::StrCat("user-", i).c_str()) == 1 ? 1 : 0;
  }
  EXPECT_NEAR(heavy, 7500, 800);
}

TEST_F(BalancersTest, RingHashSpreadsCallsWithoutAKey) {
  Use("ring_hash", R"({"requestHashHeader": "user"})");
  SetServers({1, 1, 1});
  EXPECT_THAT(Picks(3000), Each(testing::Gt(500)));
}

TEST_F(BalancersTest, RingHashTakesMoreServersThanItHasPoints) {
  Use("ring_hash", R"({"minRingSize": 1, "maxRingSize": 2})");
  SetServers({1, 1, 1, 1000});
  EXPECT_THAT(Picks(3000), Each(testing::Gt(0)));
}

absl::StatusOr<ChosenPolicy> Choose(
    const std::vector<ServiceConfig::Policy>& policies,
    const std::vector<std::shared_ptr<BalancerFactory>>& others = {}) {
  return ChoosePolicy(policies, {.others = others, .seed = 1});
}

TEST(ChoosePolicyTest, TakesTheFirstThatIsKnown) {
  EXPECT_EQ(Choose({})->name, "pick_first");
  EXPECT_EQ(Choose({{"new", "{}"}, {"round_robin", "{}"}})->name,
            "round_robin");
  EXPECT_EQ(Choose({{"pick_first", "{}"}})->balancer, nullptr);
}

TEST(ChoosePolicyTest, SaysWhatIsWrong) {
  const auto error = [](const char* name, const char* config) {
    return std::string(Choose({{name, config}}).status().message());
  };
  EXPECT_THAT(error("new", "{}"), HasSubstr("known here: new"));
  EXPECT_THAT(error("least_request", R"({"choiceCount": 1})"),
              HasSubstr("least_request.choiceCount is 1"));
  EXPECT_THAT(error("nearest", "{}"),
              HasSubstr("but must be an object with \"childPolicy\""));
  EXPECT_THAT(error("nearest", R"({"childPolicy": [{"nearest":
                        {"childPolicy": [{"round_robin": {}}]}}]})"),
              HasSubstr("but must be only once above a policy"));
  EXPECT_THAT(error("nearest", R"({"childPolicy": [{"pick_first": {}}]})"),
              HasSubstr("nearest.childPolicy is"));
  EXPECT_THAT(
      error("round_robin", R"({"slowStartConfig": {"slowStartWindow": "1h"}})"),
      HasSubstr("round_robin.slowStartConfig.slowStartWindow is"));
  EXPECT_THAT(error("outlier_detection_experimental",
                    R"({"failurePercentageEjection": {"threshold": 101}})"),
              HasSubstr("failurePercentageEjection.threshold is 101"));
  EXPECT_THAT(error("outlier_detection_experimental",
                    R"({"latencyEjection": 3, "childPolicy":
                        [{"round_robin": {}}]})"),
              HasSubstr("latencyEjection is 3"));
  EXPECT_THAT(error("weighted_round_robin", R"({"blackoutPeriod": 10})"),
              HasSubstr("weighted_round_robin.blackoutPeriod is 10"));
  EXPECT_THAT(error("ring_hash", R"({"minRingSize": 9, "maxRingSize": 8})"),
              HasSubstr("ring_hash.minRingSize is 9"));
}

class Mine final : public BalancerFactory {
 public:
  absl::string_view policy() const override { return "mine"; }
  absl::StatusOr<std::unique_ptr<Balancer>> Create(const std::string& config,
                                                   uint64_t /*seed*/) override {
    config_ = config;
    auto chosen = Choose({{"round_robin", "{}"}});
    return std::move(chosen->balancer);
  }

  std::string config_;
};

TEST(ChoosePolicyTest, KnowsThoseOfTheUser) {
  const auto mine = std::make_shared<Mine>();
  EXPECT_NE(Choose({{"mine", R"({"a":1})"}}, {mine})->balancer, nullptr);
  EXPECT_EQ(mine->config_, R"({"a":1})");
}

}  // namespace
}  // namespace verbena::internal
