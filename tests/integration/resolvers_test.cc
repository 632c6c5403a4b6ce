// The answers of resolvers, good and bad.

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/metrics.h"
#include "rpc/resolver.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/services_fixture.h"
#include "tests/integration/test_service.h"

namespace verbena::end_to_end {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

using ResolversTest = ServicesTest;

TEST_F(ResolversTest, AnAnswerThatIsOfNoUseChangesNothing) {
  registry_->Answer(Addresses());
  const auto stub = NewStub();
  AwaitConnected(*stub, 3);
  registry_->Answer(absl::UnavailableError("the registry is down"));
  registry_->Answer(std::vector<std::string>());
  Resolved wrong;
  for (const std::string& address : Addresses()) {
    wrong.servers.push_back({.address = address});
  }
  wrong.service_config = R"({"methodConfig": 7})";
  registry_->Answer(wrong);
  EXPECT_THAT(Spread(*stub, 9), SizeIs(3));
}

TEST_F(ResolversTest, ACallWaitsForTheFirstAnswer) {
  const auto stub = NewStub();
  absl::Status status = absl::UnknownError("not made");
  std::thread thread([&] { status = CallAtOnce(*stub); });
  registry_->AwaitOpen(1);
  registry_->Answer(Addresses());
  thread.join();
  EXPECT_EQ(status, absl::OkStatus());
}

TEST_F(ResolversTest, TheErrorOfTheResolverIsThatOfTheCalls) {
  registry_->Answer(absl::UnavailableError("the registry is down"));
  const auto stub = NewStub();
  const absl::Status status = CallAtOnce(*stub);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("no servers of registry:///orders: "
                                          "the registry is down"));
  registry_->Answer(Addresses());
  EXPECT_FALSE(Call(*stub).empty());
}

TEST_F(ResolversTest, AnErrorIsForgottenWhileTheChannelIsIdle) {
  options_.idle_timeout = absl::Milliseconds(20);
  registry_->Answer(absl::UnavailableError("the registry is down"));
  const auto stub = NewStub();
  EXPECT_FALSE(CallAtOnce(*stub).ok());
  while (channel_->state() != ChannelState::kIdle) std::this_thread::yield();
  registry_->Answer(Addresses());
  EXPECT_EQ(CallAtOnce(*stub), absl::OkStatus());
}

TEST_F(ResolversTest, AResolverThatCannotBeMadeIsMadeLater) {
  registry_->Refuse(absl::UnavailableError("no thread"));
  const auto stub = NewStub();
  EXPECT_THAT(CallAtOnce(*stub).message(), HasSubstr("no thread"));
  registry_->Answer(Addresses());
  registry_->Refuse(absl::OkStatus());
  // Calls that do not wait see it, too.
  while (!CallAtOnce(*stub).ok()) std::this_thread::yield();
}

TEST_F(ResolversTest, AChannelConnectsWithoutACall) {
  for (const char* policy : {"pick_first", "round_robin"}) {
    registry_->Answer(Addresses(), policy);
    const auto stub = NewStub();
    EXPECT_TRUE(channel_->WaitForConnected(absl::InfiniteFuture())) << policy;
    const auto other = NewStub();
    while (channel_->state(/*try_to_connect=*/true) != ChannelState::kReady) {
      std::this_thread::yield();
    }
  }
}

TEST_F(ResolversTest, TheConfigMayBeWithdrawn) {
  registry_->Answer(Addresses());
  const auto stub = NewStub();
  AwaitConnected(*stub, 3);
  Resolved plain;
  for (const std::string& address : Addresses()) {
    plain.servers.push_back({.address = address});
  }
  registry_->Answer(plain);
  while (channel_->GetMetrics().servers.size() != 1) std::this_thread::yield();
  EXPECT_THAT(Spread(*stub, 9), SizeIs(1));
  registry_->Answer(Addresses());
  AwaitConnected(*stub, 3);
}

TEST_F(ResolversTest, ACallWaitsForABetterConfig) {
  Resolved wrong;
  wrong.servers.push_back({.address = backends_[0]->address});
  wrong.service_config = R"({"methodConfig": 7})";
  registry_->Answer(wrong);
  const auto stub = NewStub();
  const absl::Status status = CallAtOnce(*stub);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("methodConfig is 7"));
  std::string answered_by;
  std::thread thread([&] { answered_by = Call(*stub); });
  registry_->Answer(Addresses());
  thread.join();
  EXPECT_FALSE(answered_by.empty());
}

TEST_F(ResolversTest, ACallThatWaitsSeesTheResolverThatIsMadeLater) {
  registry_->Refuse(absl::UnavailableError("no thread"));
  const auto stub = NewStub();
  std::string answered_by;
  std::thread thread([&] { answered_by = Call(*stub); });
  registry_->AwaitRefusals(2);
  registry_->Answer(Addresses());
  registry_->Refuse(absl::OkStatus());
  thread.join();
  EXPECT_FALSE(answered_by.empty());
}

TEST_F(ResolversTest, ATargetThatIsWrongFailsEvenCallsThatWait) {
  registry_->Refuse(absl::InvalidArgumentError("no such shelf"));
  const auto stub = NewStub();
  ClientContext context;
  context.set_wait_for_ready(true);
  EchoReply reply;
  const absl::Status status = stub->Echo(&context, EchoRequest(), &reply);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("no such shelf"));
  EXPECT_FALSE(channel_->WaitForConnected(absl::InfiniteFuture()));
}

TEST_F(ResolversTest, ASchemeThatNobodyKnowsIsSaid) {
  const auto stub = NewStub("consul:///orders");
  const absl::Status status = CallAtOnce(*stub);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("the scheme \"consul\""));
}

TEST_F(ResolversTest, AConfigThatIsWrongIsSaid) {
  options_.service_config = R"({"loadBalancingConfig": [{"no_such": {}}]})";
  const auto stub = NewStub();
  const absl::Status status = CallAtOnce(*stub);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("no_such"));
}

TEST_F(ResolversTest, AnAddressMayBeInAListOfOne) {
  const auto stub = NewStub(absl::StrCat("ipv4:", backends_[2]->address));
  EXPECT_EQ(Call(*stub), backends_[2]->address);
}

TEST_F(ResolversTest, AnAnswerMayBeSenseless) {
  Resolved resolved;
  for (const std::string& address : Addresses()) {
    resolved.servers.push_back({.address = address, .weight = 0});
    resolved.servers.push_back({.address = address, .weight = 4000000000});
  }
  for (const char* address : {"", ":", "no port", "[::1", "a:b:c:1"}) {
    resolved.servers.push_back({.address = address, .weight = 0});
  }
  for (const char* policy :
       {"ring_hash", "weighted_round_robin", "least_request", "round_robin"}) {
    resolved.service_config =
        absl::StrCat(R"({"loadBalancingConfig": [{")", policy, R"(": {}}]})");
    registry_->Answer(resolved);
    const auto stub = NewStub();
    EXPECT_FALSE(Call(*stub).empty()) << policy;
    AwaitConnected(*stub, 3);
  }
}

TEST_F(ResolversTest, TheResolverGoesWithTheChannel) {
  registry_->Answer(Addresses());
  auto stub = NewStub();
  Call(*stub);
  registry_->AwaitOpen(1);
  stub.reset();
  channel_.reset();
  registry_->AwaitOpen(0);
}

TEST_F(ResolversTest, AChannelMayGoWhileItLooks) {
  auto stub = NewStub();
  channel_->state(/*try_to_connect=*/true);
  registry_->AwaitOpen(1);
  stub.reset();
  channel_.reset();
  registry_->AwaitOpen(0);
}

}  // namespace
}  // namespace verbena::end_to_end
