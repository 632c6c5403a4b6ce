#include "tests/simulation/fleet_balancers.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "rpc/internal/service/balancers.h"
#include "tests/simulation/fleet_scenario.h"

namespace verbena::simulation {
namespace {

class Watched final : public Balancer {
 public:
  Watched(std::unique_ptr<Balancer> balancer, BalancerWatch* watch)
      : balancer_(std::move(balancer)), watch_(*watch) {}

  void SetServers(absl::Span<Server* const> servers) override {
    servers_.assign(servers.begin(), servers.end());
    for (size_t i = 1; i < servers_.size(); ++i) {
      EXPECT_LT(servers_[i - 1]->address().address,
                servers_[i]->address().address);
    }
    balancer_->SetServers(servers);
  }

  size_t Pick(const Call& call) override {
    EXPECT_FALSE(servers_.empty());
    if (std::exchange(watch_.expects_idle, false)) {
      for (const Server* server : servers_) {
        EXPECT_EQ(server->open_calls(), 0u) << server->address().address;
      }
    }
    const size_t picked = balancer_->Pick(call);
    EXPECT_LT(picked, servers_.size());
    return picked;
  }
  bool wants_results() const override { return balancer_->wants_results(); }
  void OnResult(size_t position, const Result& result) override {
    EXPECT_LT(position, servers_.size());
    balancer_->OnResult(position, result);
  }

 private:
  const std::unique_ptr<Balancer> balancer_;
  BalancerWatch& watch_;
  std::vector<Server*> servers_;
};

class Watcher final : public BalancerFactory {
 public:
  Watcher(std::string policy, BalancerWatch* watch)
      : policy_(std::move(policy)), watch_(watch) {}

  absl::string_view policy() const override { return policy_; }

  absl::StatusOr<std::unique_ptr<Balancer>> Create(const std::string& config,
                                                   uint64_t seed) override {
    absl::StatusOr<internal::ChosenPolicy> chosen = internal::ChoosePolicy(
        {{.name = policy_, .config = config}}, {.others = {}, .seed = seed});
    if (!chosen.ok()) return chosen.status();
    return std::make_unique<Watched>(std::move(chosen->balancer), watch_);
  }

 private:
  const std::string policy_;
  BalancerWatch* const watch_;
};

}  // namespace

std::vector<std::shared_ptr<BalancerFactory>> WatchedBalancers(
    BalancerWatch* watch) {
  std::vector<std::shared_ptr<BalancerFactory>> factories;
  for (const Policy policy : kPolicies) {
    if (policy == Policy::kPickFirst) continue;
    factories.push_back(std::make_shared<Watcher>(PolicyName(policy), watch));
  }
  return factories;
}

}  // namespace verbena::simulation
