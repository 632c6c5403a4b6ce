// A channel to a service: its servers come and go, and calls are spread.

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/balancer.h"
#include "rpc/metrics.h"
#include "rpc/resolver.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/services_fixture.h"
#include "tests/integration/test_service.h"

namespace verbena::end_to_end {
namespace {

using ::testing::SizeIs;

TEST_F(ServicesTest, RoundRobinTakesTheServersInTurn) {
  registry_->Answer(Addresses());
  const auto stub = NewStub();
  AwaitConnected(*stub, 3);
  const auto spread = Spread(*stub, 30);
  EXPECT_THAT(spread, SizeIs(3));
  for (const auto& [address, calls] : spread) EXPECT_EQ(calls, 10) << address;
  EXPECT_EQ(registry_->path(), "orders");
}

TEST_F(ServicesTest, TheFirstServerThatAnswersTakesAllCallsByDefault) {
  registry_->Answer(Addresses(), "pick_first");
  const auto stub = NewStub();
  EXPECT_THAT(Spread(*stub, 10), SizeIs(1));
  EXPECT_THAT(channel_->GetMetrics().servers, SizeIs(1));
}

TEST_F(ServicesTest, TheNextServerTakesOverWhereTheFirstIsGone) {
  registry_->Answer(Addresses(), "pick_first");
  const auto stub = NewStub();
  EXPECT_EQ(Call(*stub), backends_[0]->address);
  backends_[0]->server->Shutdown(absl::InfiniteFuture());
  backends_[0]->server.reset();
  EXPECT_EQ(Call(*stub), backends_[1]->address);
}

TEST_F(ServicesTest, CallsGoOnWhileServersAreReplaced) {
  registry_->Answer(Addresses());
  const auto stub = NewStub();
  AwaitConnected(*stub, 3);
  for (const auto& backend : backends_) {
    backend->server->Shutdown(absl::InfiniteFuture());
    backend->server.reset();
    EXPECT_THAT(Spread(*stub, 20), SizeIs(2));
    Start(backend.get());
    AwaitConnected(*stub, 3);
  }
}

TEST_F(ServicesTest, AServerThatIsAddedGetsCalls) {
  registry_->Answer({backends_[0]->address});
  const auto stub = NewStub();
  EXPECT_THAT(Spread(*stub, 4), SizeIs(1));
  registry_->Answer(Addresses());
  AwaitConnected(*stub, 3);
  EXPECT_THAT(Spread(*stub, 9), SizeIs(3));
}

TEST_F(ServicesTest, AServerThatIsRemovedEndsItsCallsAndGetsNoMore) {
  registry_->Answer({backends_[0]->address});
  const auto stub = NewStub();
  auto blocked = std::make_unique<ClientContext>();
  absl::Status status;
  std::thread thread(
      [&] { status = CallBlock(stub.get(), blocked.get(), "a"); });
  backends_[0]->service.AwaitBlocked("a");
  registry_->Answer({backends_[1]->address});
  while (Call(*stub) != backends_[1]->address) {
  }
  backends_[0]->service.Release("a");
  thread.join();
  EXPECT_EQ(status, absl::OkStatus());
}

TEST_F(ServicesTest, TheSameKeyGoesToTheSameServer) {
  registry_->Answer(Addresses(), "ring_hash");
  Resolved resolved;
  for (const std::string& address : Addresses()) {
    resolved.servers.push_back({.address = address});
  }
  resolved.service_config = R"({"loadBalancingConfig":
      [{"ring_hash": {"requestHashHeader": "user"}}]})";
  registry_->Answer(resolved);
  const auto stub = NewStub();
  AwaitConnected(*stub, 3);
  std::map<std::string, std::string> first;
  for (int i = 0; i < 30; ++i) {
    first[absl::StrCat(i)] = Call(*stub, absl::StrCat(i));
  }
  for (const auto& [user, address] : first) {
    EXPECT_EQ(Call(*stub, user), address);
  }
}

TEST_F(ServicesTest, LeastRequestLeavesABusyServerAlone) {
  registry_->Answer(Addresses(), "least_request");
  const auto stub = NewStub();
  AwaitConnected(*stub, 3);
  auto context = std::make_unique<ClientContext>();
  std::thread thread(
      [&] { CallBlock(stub.get(), context.get(), "a").IgnoreError(); });
  AwaitBlocked("a");
  const auto spread = Spread(*stub, 90);
  context->TryCancel();
  thread.join();
  EXPECT_EQ(spread.count(context->peer()), 0);
}

// Always the last one.
class Last final : public Balancer, public BalancerFactory {
 public:
  absl::string_view policy() const override { return "last"; }
  absl::StatusOr<std::unique_ptr<Balancer>> Create(
      const std::string& /*config*/, uint64_t /*seed*/) override {
    return std::make_unique<Last>();
  }
  void SetServers(absl::Span<Server* const> servers) override {
    count_ = servers.size();
  }
  size_t Pick(const Call& call) override {
    EXPECT_EQ(call.method, "verbena.end_to_end.EndToEnd/Echo");
    return count_ - 1;
  }

 private:
  size_t count_ = 0;
};

TEST_F(ServicesTest, APolicyOfTheUserDecides) {
  options_.balancers.push_back(std::make_shared<Last>());
  registry_->Answer(Addresses(), "last");
  const auto stub = NewStub();
  AwaitConnected(*stub, 3);
  std::vector<std::string> addresses = Addresses();
  std::sort(addresses.begin(), addresses.end());
  EXPECT_EQ(Call(*stub), addresses.back());
  EXPECT_THAT(Spread(*stub, 5), SizeIs(1));
}

}  // namespace
}  // namespace verbena::end_to_end
