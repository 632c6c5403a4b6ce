// A channel to a service: its servers come and go, and calls are spread.

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/balancer.h"
#include "rpc/metrics.h"
#include "rpc/resolver.h"
#include "tests/integration/end_to_end_fixture.h"
#include "tests/integration/test_service.h"
#include "tests/testing/child_process.h"
#include "transport/base/mutex.h"

namespace verbena::end_to_end {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// A registry that the test fills.
class Registry final : public ResolverFactory {
 public:
  absl::string_view scheme() const override { return "registry"; }

  absl::StatusOr<std::unique_ptr<Resolver>> Create(
      const Target& target, Resolver::OnResult on_result) override {
    const base::MutexLock lock(mutex_);
    if (!refusal_.ok()) {
      ++refusals_;
      changed_.NotifyAll();
      return refusal_;
    }
    ++open_;
    path_ = target.path;
    on_result_ = std::move(on_result);
    if (last_.has_value()) on_result_(*last_);
    changed_.NotifyAll();
    return std::make_unique<Follower>(this);
  }

  void Answer(absl::StatusOr<Resolved> answer) {
    const base::MutexLock lock(mutex_);
    last_ = std::move(answer);
    if (on_result_) on_result_(*last_);
  }
  void Answer(const std::vector<std::string>& addresses,
              const std::string& policy = "round_robin") {
    Resolved resolved;
    for (const std::string& address : addresses) {
      resolved.servers.push_back({.address = address});
    }
    resolved.service_config =
        absl::StrCat(R"({"loadBalancingConfig": [{")", policy, R"(": {}}]})");
    Answer(std::move(resolved));
  }
  void Refuse(absl::Status status) {
    const base::MutexLock lock(mutex_);
    refusal_ = std::move(status);
  }

  void AwaitRefusals(int count) {
    const base::MutexLock lock(mutex_);
    while (refusals_ < count) changed_.Wait(mutex_);
  }
  void AwaitOpen(int count) {
    const base::MutexLock lock(mutex_);
    while (open_ != count) changed_.Wait(mutex_);
  }
  std::string path() {
    const base::MutexLock lock(mutex_);
    return path_;
  }

 private:
  class Follower final : public Resolver {
   public:
    explicit Follower(Registry* registry) : registry_(*registry) {}
    ~Follower() override {
      const base::MutexLock lock(registry_.mutex_);
      --registry_.open_;
      registry_.on_result_ = nullptr;
      registry_.changed_.NotifyAll();
    }
    void ResolveNow() override {}

   private:
    Registry& registry_;
  };

  base::Mutex mutex_;
  base::CondVar changed_;
  Resolver::OnResult on_result_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::StatusOr<Resolved>> last_ ABSL_GUARDED_BY(mutex_);
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
  int refusals_ ABSL_GUARDED_BY(mutex_) = 0;
  int open_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string path_ ABSL_GUARDED_BY(mutex_);
};

class ServicesTest : public ::testing::Test {
 protected:
  // A server of the service.
  struct Backend {
    EndToEndService service;
    std::unique_ptr<Server> server;
    std::string address;
    int port = 0;
  };

  explicit ServicesTest(int count = 3) {
    for (int i = 0; i < count; ++i) Start(AddBackend());
    options_.resolvers.push_back(registry_);
    options_.initial_backoff = absl::Milliseconds(10);
  }

  Backend* AddBackend() {
    backends_.push_back(std::make_unique<Backend>());
    return backends_.back().get();
  }
  void Start(Backend* backend) {
    ServerBuilder builder;
    builder.AddListeningPort(
        absl::StrCat(testing_support::TestAddress(), ":", backend->port),
        &backend->port);
    builder.RegisterService(&backend->service);
    auto server = builder.BuildAndStart();
    ASSERT_TRUE(server.ok()) << server.status();
    backend->server = *std::move(server);
    backend->address =
        absl::StrCat(testing_support::TestAddress(), ":", backend->port);
  }

  std::vector<std::string> Addresses() const {
    std::vector<std::string> addresses;
    for (const auto& backend : backends_) addresses.push_back(backend->address);
    return addresses;
  }
  std::unique_ptr<EndToEnd::Stub> NewStub(
      const std::string& target = "registry:///orders") {
    channel_ = CreateChannel(target, options_);
    return EndToEnd::NewStub(channel_);
  }

  // Makes a call, and returns the address of the server that has answered.
  std::string Call(EndToEnd::Stub& stub, const std::string& user = "") {
    ClientContext context;
    context.set_timeout(absl::Minutes(1));
    context.set_wait_for_ready(true);
    if (!user.empty()) context.AddMetadata("user", user);
    EchoRequest request;
    EchoReply reply;
    const absl::Status status = stub.Echo(&context, request, &reply);
    EXPECT_EQ(status, absl::OkStatus());
    return context.peer();
  }
  absl::Status CallAtOnce(EndToEnd::Stub& stub) {
    ClientContext context;
    context.set_timeout(absl::Minutes(1));
    EchoRequest request;
    EchoReply reply;
    return stub.Echo(&context, request, &reply);
  }
  // Calls until all servers are connected.
  void AwaitConnected(EndToEnd::Stub& stub, size_t count) {
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    size_t connected = 0;
    while (connected != count) {
      ASSERT_LT(absl::Now(), deadline) << connected << " servers connected";
      Call(stub);
      connected = 0;
      for (const auto& server : channel_->GetMetrics().servers) {
        connected += server.connected ? 1 : 0;
      }
    }
  }
  // Waits until a server runs the call with this key.
  void AwaitBlocked(const std::string& key) {
    for (;;) {
      for (const auto& backend : backends_) {
        if (backend->service.blocks(key) > 0) return;
      }
      std::this_thread::yield();
    }
  }
  std::map<std::string, int> Spread(EndToEnd::Stub& stub, int calls) {
    std::map<std::string, int> spread;
    for (int i = 0; i < calls; ++i) ++spread[Call(stub)];
    return spread;
  }

  const std::shared_ptr<Registry> registry_ = std::make_shared<Registry>();
  std::vector<std::unique_ptr<Backend>> backends_;
  ChannelOptions options_;
  std::shared_ptr<Channel> channel_;
};

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

TEST_F(ServicesTest, AnAnswerThatIsOfNoUseChangesNothing) {
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

TEST_F(ServicesTest, ACallWaitsForTheFirstAnswer) {
  const auto stub = NewStub();
  absl::Status status = absl::UnknownError("not made");
  std::thread thread([&] { status = CallAtOnce(*stub); });
  registry_->AwaitOpen(1);
  registry_->Answer(Addresses());
  thread.join();
  EXPECT_EQ(status, absl::OkStatus());
}

TEST_F(ServicesTest, TheErrorOfTheResolverIsThatOfTheCalls) {
  registry_->Answer(absl::UnavailableError("the registry is down"));
  const auto stub = NewStub();
  const absl::Status status = CallAtOnce(*stub);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("no servers of registry:///orders: "
                                          "the registry is down"));
  registry_->Answer(Addresses());
  EXPECT_FALSE(Call(*stub).empty());
}

TEST_F(ServicesTest, AResolverThatCannotBeMadeIsMadeLater) {
  registry_->Refuse(absl::UnavailableError("no thread"));
  const auto stub = NewStub();
  EXPECT_THAT(CallAtOnce(*stub).message(), HasSubstr("no thread"));
  registry_->Answer(Addresses());
  registry_->Refuse(absl::OkStatus());
  // Calls that do not wait see it, too.
  while (!CallAtOnce(*stub).ok()) std::this_thread::yield();
}

TEST_F(ServicesTest, AChannelConnectsWithoutACall) {
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

TEST_F(ServicesTest, TheConfigMayBeWithdrawn) {
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

TEST_F(ServicesTest, ACallWaitsForABetterConfig) {
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

TEST_F(ServicesTest, ACallThatWaitsSeesTheResolverThatIsMadeLater) {
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

TEST_F(ServicesTest, ATargetThatIsWrongFailsEvenCallsThatWait) {
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

TEST_F(ServicesTest, ASchemeThatNobodyKnowsIsSaid) {
  const auto stub = NewStub("consul:///orders");
  const absl::Status status = CallAtOnce(*stub);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("the scheme \"consul\""));
}

TEST_F(ServicesTest, AConfigThatIsWrongIsSaid) {
  options_.service_config = R"({"loadBalancingConfig": [{"no_such": {}}]})";
  const auto stub = NewStub();
  const absl::Status status = CallAtOnce(*stub);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("no_such"));
}

TEST_F(ServicesTest, AnAddressMayBeInAListOfOne) {
  const auto stub = NewStub(absl::StrCat("ipv4:", backends_[2]->address));
  EXPECT_EQ(Call(*stub), backends_[2]->address);
}

TEST_F(ServicesTest, AnAnswerMayBeSenseless) {
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
  // Only where both draws are the busy one: one time in nine.
  const auto spread = Spread(*stub, 90);
  context->TryCancel();
  thread.join();
  EXPECT_LT(spread.at(context->peer()), 30);
}

TEST_F(ServicesTest, TheResolverGoesWithTheChannel) {
  registry_->Answer(Addresses());
  auto stub = NewStub();
  Call(*stub);
  registry_->AwaitOpen(1);
  stub.reset();
  channel_.reset();
  registry_->AwaitOpen(0);
}

TEST_F(ServicesTest, AChannelMayGoWhileItLooks) {
  auto stub = NewStub();
  channel_->state(/*try_to_connect=*/true);
  registry_->AwaitOpen(1);
  stub.reset();
  channel_.reset();
  registry_->AwaitOpen(0);
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
