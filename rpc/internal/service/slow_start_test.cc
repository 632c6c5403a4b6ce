#include "rpc/internal/service/slow_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "rpc/internal/service/fake_server.h"
#include "rpc/internal/service/round_robin.h"

namespace verbena::internal {
namespace {

class SlowStartTest : public testing::Test {
 protected:
  SlowStartTest() {
    // All but the last are there for long.
    auto last = std::move(set_.servers.back());
    set_.servers.pop_back();
    set_.Tell(&balancer_);
    Tick();
    now_ += absl::Seconds(20);
    Tick();
    set_.servers.push_back(std::move(last));
    set_.Tell(&balancer_);
  }
  void Tick() {
    now_ += absl::Milliseconds(100);
    balancer_.OnResult(0, {.time = now_});
  }
  // The last server's share of 10,000 calls, in percent.
  int Share() { return set_.Picks(&balancer_, 10000).back() / 100; }

  SlowStart balancer_{{.window = absl::Seconds(10)},
                      std::make_unique<RoundRobin>(7),
                      /*seed=*/7};
  BalancedServers set_{4};
  absl::Time now_ = absl::UnixEpoch();
};

TEST_F(SlowStartTest, ANewServerGetsMoreAndMoreCalls) {
  std::vector<int> shares = {Share()};
  for (int second = 0; second < 12; second += 4) {
    Tick();
    now_ += absl::Seconds(4);
    Tick();
    shares.push_back(Share());
  }
  EXPECT_LE(shares[0], 5);
  EXPECT_LT(shares[0], shares[1]);
  EXPECT_LT(shares[1], shares[2]);
  EXPECT_EQ(shares[3], 25);
}

TEST_F(SlowStartTest, AServerThatReturnsBeginsAnew) {
  Tick();
  now_ += absl::Seconds(10);
  Tick();
  EXPECT_EQ(Share(), 25);
  auto last = std::move(set_.servers.back());
  set_.servers.pop_back();
  set_.Tell(&balancer_);
  set_.servers.push_back(std::move(last));
  set_.Tell(&balancer_);
  EXPECT_LE(Share(), 5);
}

TEST(SlowStartOfAllTest, NewServersShareTheCallsEvenly) {
  SlowStart balancer({.window = absl::Seconds(10)},
                     std::make_unique<RoundRobin>(7), /*seed=*/7);
  const BalancedServers set(4);
  set.Tell(&balancer);
  for (const int picks : set.Picks(&balancer, 10000)) {
    EXPECT_NEAR(picks, 2500, 300);
  }
}

}  // namespace
}  // namespace verbena::internal
