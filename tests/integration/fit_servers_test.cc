// Calls keep away from servers that are not healthy, fail, or are far away.

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/load_report.h"
#include "rpc/metrics.h"
#include "rpc/resolver.h"
#include "rpc/services/health_service.h"
#include "tests/integration/services_fixture.h"
#include "transport/base/mutex.h"

namespace verbena::end_to_end {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::SizeIs;

// Answers as it is told.
class Told final : public EndToEnd::Service {
 public:
  absl::Status Echo(ServerContext* context, const EchoRequest* /*request*/,
                    EchoReply* /*reply*/) override {
    const base::MutexLock lock(mutex_);
    if (load_.cpu_utilization > 0) ReportLoad(load_, context);
    return status_;
  }
  void Answer(absl::Status status) {
    const base::MutexLock lock(mutex_);
    status_ = std::move(status);
  }
  void Report(const LoadReport& load) {
    const base::MutexLock lock(mutex_);
    load_ = load;
  }

 private:
  base::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  LoadReport load_ ABSL_GUARDED_BY(mutex_);
};

class FitServersTest : public ServicesTest {
 protected:
  struct Fit {
    Told service;
    std::unique_ptr<HealthService> health = std::make_unique<HealthService>();
    std::unique_ptr<Server> server;
    std::string address;
  };

  FitServersTest() : ServicesTest(/*count=*/0) {
    for (int i = 0; i < 3; ++i) Start(/*with_health=*/true);
  }

  void Start(bool with_health) {
    servers_.push_back(std::make_unique<Fit>());
    Fit& fit = *servers_.back();
    int port = 0;
    ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat(testing_support::TestAddress(), ":0"),
                             &port);
    builder.RegisterService(&fit.service);
    if (with_health) builder.RegisterService(fit.health.get());
    auto server = builder.BuildAndStart();
    ASSERT_TRUE(server.ok()) << server.status();
    fit.server = *std::move(server);
    fit.address = absl::StrCat(testing_support::TestAddress(), ":", port);
  }
  void Answer(const std::string& config) {
    Resolved resolved;
    for (const auto& fit : servers_) {
      resolved.servers.push_back(
          {.address = fit->address, .locality = {"eu", fit->address, ""}});
    }
    resolved.service_config = config;
    registry_->Answer(resolved);
  }
  ChannelServerMetrics MetricsOf(const Fit& fit) {
    for (const auto& server : channel_->GetMetrics().servers) {
      if (server.address == fit.address) return server;
    }
    return {};
  }
  // Calls until `done` is true.
  template <typename Done>
  void CallUntil(EndToEnd::Stub& stub, Done done) {
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    while (!done()) {
      ASSERT_LT(absl::Now(), deadline);
      CallAtOnce(stub).IgnoreError();
    }
  }
  // Calls until so many servers are connected and healthy.
  void AwaitFit(EndToEnd::Stub& stub, int count) {
    CallUntil(stub, [&] {
      const auto servers = channel_->GetMetrics().servers;
      return std::count_if(servers.begin(), servers.end(), [](const auto& s) {
               return s.connected && s.healthy;
             }) == count;
    });
  }

  std::vector<std::unique_ptr<Fit>> servers_;
};

constexpr char kHealthOfOrders[] = R"({
    "loadBalancingConfig": [{"round_robin": {}}],
    "healthCheckConfig": {"serviceName": "orders"}})";

TEST_F(FitServersTest, AServerThatIsNotHealthyGetsNoCalls) {
  for (const auto& fit : servers_) {
    fit->health->SetServingStatus("orders", true);
  }
  Answer(kHealthOfOrders);
  const auto stub = NewStub();
  AwaitFit(*stub, 3);
  servers_[1]->health->SetServingStatus("orders", false);
  AwaitFit(*stub, 2);
  const auto spread = Spread(*stub, 20);
  EXPECT_THAT(spread, SizeIs(2));
  EXPECT_THAT(spread, Not(Contains(Key(servers_[1]->address))));
  EXPECT_FALSE(MetricsOf(*servers_[1]).healthy);
  servers_[1]->health->SetServingStatus("orders", true);
  AwaitFit(*stub, 3);
  EXPECT_THAT(Spread(*stub, 9), Contains(Key(servers_[1]->address)));
}

TEST_F(FitServersTest, CallsFailWhereNoServerIsHealthy) {
  Answer(kHealthOfOrders);
  const auto stub = NewStub();
  const absl::Status status = CallAtOnce(*stub);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("is not healthy: the status of \"orders\" is "
                        "SERVICE_UNKNOWN"));
  EXPECT_EQ(channel_->state(), ChannelState::kTransientFailure);
}

TEST_F(FitServersTest, APatientCallWaitsForAHealthyServer) {
  Answer(kHealthOfOrders);
  const auto stub = NewStub();
  EXPECT_FALSE(CallAtOnce(*stub).ok());
  std::string answered_by;
  std::thread thread([&] { answered_by = Call(*stub); });
  servers_[2]->health->SetServingStatus("orders", true);
  thread.join();
  EXPECT_EQ(answered_by, servers_[2]->address);
}

TEST_F(FitServersTest, AServerThatCannotBeAskedCountsAsHealthy) {
  servers_.clear();
  Start(/*with_health=*/false);
  Answer(kHealthOfOrders);
  const auto stub = NewStub();
  EXPECT_EQ(CallAtOnce(*stub), absl::OkStatus());
}

TEST_F(FitServersTest, AServerIsAskedUntilItEnds) {
  for (const auto& fit : servers_) {
    fit->health->SetServingStatus("orders", true);
  }
  Answer(kHealthOfOrders);
  const auto stub = NewStub();
  AwaitFit(*stub, 3);
  // Would not return as long as a call is open.
  std::thread thread(
      [&] { servers_[0]->server->Shutdown(absl::InfiniteFuture()); });
  CallUntil(*stub, [&] { return !MetricsOf(*servers_[0]).connected; });
  thread.join();
  EXPECT_THAT(Spread(*stub, 8), SizeIs(2));
}

TEST_F(FitServersTest, AnotherServiceMayBeAskedFor) {
  Answer(kHealthOfOrders);
  const auto stub = NewStub();
  EXPECT_FALSE(CallAtOnce(*stub).ok());
  Answer(R"({"loadBalancingConfig": [{"round_robin": {}}],
             "healthCheckConfig": {"serviceName": ""}})");
  AwaitFit(*stub, 3);
  Answer(R"({"loadBalancingConfig": [{"round_robin": {}}]})");
  EXPECT_THAT(Spread(*stub, 9), SizeIs(3));
}

constexpr char kEjectsSoon[] = R"({"loadBalancingConfig": [
    {"outlier_detection_experimental": {
       "interval": "0.05s", "baseEjectionTime": "0.2s",
       "maxEjectionPercent": 50,
       "consecutiveFailuresEjection": {"threshold": 3},
       "childPolicy": [{"round_robin": {}}]}}]})";

TEST_F(FitServersTest, AServerThatFailsIsEjectedForAWhile) {
  Answer(kEjectsSoon);
  const auto stub = NewStub();
  AwaitFit(*stub, 3);
  servers_[1]->service.Answer(absl::InternalError("broken"));
  CallUntil(*stub, [&] { return MetricsOf(*servers_[1]).ejected; });
  servers_[1]->service.Answer(absl::OkStatus());
  CallUntil(*stub, [&] { return !MetricsOf(*servers_[1]).ejected; });
  EXPECT_THAT(Spread(*stub, 9), SizeIs(3));
}

TEST_F(FitServersTest, AnotherPolicyKnowsNothingOfEjections) {
  Answer(kEjectsSoon);
  const auto stub = NewStub();
  AwaitFit(*stub, 3);
  servers_[1]->service.Answer(absl::InternalError("broken"));
  CallUntil(*stub, [&] { return MetricsOf(*servers_[1]).ejected; });
  Answer(R"({"loadBalancingConfig": [{"round_robin": {}}]})");
  CallUntil(*stub, [&] { return !MetricsOf(*servers_[1]).ejected; });
}

TEST_F(FitServersTest, AServerWithRoomForOneCallIsNotAsked) {
  options_.max_concurrent_calls = 1;
  Answer(kHealthOfOrders);
  const auto stub = NewStub();
  EXPECT_EQ(CallAtOnce(*stub), absl::OkStatus());
}

// A server is always left, however badly it does.
TEST_F(FitServersTest, CallsGoOnWhereAllServersFail) {
  for (const auto& fit : servers_) {
    fit->service.Answer(absl::InternalError("broken"));
  }
  Answer(kEjectsSoon);
  const auto stub = NewStub();
  CallUntil(*stub, [&] {
    return std::any_of(servers_.begin(), servers_.end(), [&](const auto& fit) {
      return MetricsOf(*fit).ejected;
    });
  });
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(CallAtOnce(*stub).code(), absl::StatusCode::kInternal);
  }
}

TEST_F(FitServersTest, ServersGetCallsByTheLoadThatTheyReport) {
  servers_[0]->service.Report(
      {.cpu_utilization = 0.9, .requests_per_second = 100});
  servers_[1]->service.Report(
      {.cpu_utilization = 0.1, .requests_per_second = 100});
  servers_[2]->service.Report(
      {.cpu_utilization = 0.9, .requests_per_second = 100});
  Answer(R"({"loadBalancingConfig": [{"weighted_round_robin":
      {"blackoutPeriod": "0s", "weightUpdatePeriod": "0.1s"}}]})");
  const auto stub = NewStub();
  AwaitFit(*stub, 3);
  // A server that has not reported yet has the mean weight.
  CallUntil(*stub, [&] {
    const double heavy = MetricsOf(*servers_[1]).load_weight;
    return heavy > 5 * MetricsOf(*servers_[0]).load_weight &&
           heavy > 5 * MetricsOf(*servers_[2]).load_weight;
  });
  auto spread = Spread(*stub, 110);
  EXPECT_NEAR(spread[servers_[0]->address], 10, 3);
  EXPECT_NEAR(spread[servers_[1]->address], 90, 5);
}

// All servers of the test are on this host; each is in a zone of its own.
TEST_F(FitServersTest, CallsGoToTheNearestServers) {
  options_.locality = {"eu", servers_[1]->address, ""};
  Answer(R"({"loadBalancingConfig": [{"nearest":
      {"childPolicy": [{"round_robin": {}}]}}]})");
  const auto stub = NewStub();
  AwaitFit(*stub, 3);
  const bool shared_memory = MetricsOf(*servers_[1]).fabric == "shm";
  const auto spread = Spread(*stub, 9);
  EXPECT_THAT(spread, SizeIs(shared_memory ? 3 : 1));
  EXPECT_THAT(spread, Contains(Key(servers_[1]->address)));
}

TEST_F(FitServersTest, OpenCallsAreCounted) {
  Answer(R"({"loadBalancingConfig": [{"round_robin": {}}]})");
  const auto stub = NewStub();
  AwaitFit(*stub, 3);
  const uint64_t before = MetricsOf(*servers_[0]).calls;
  Spread(*stub, 9);
  for (const auto& fit : servers_) {
    EXPECT_EQ(MetricsOf(*fit).open_calls, 0u);
  }
  EXPECT_EQ(MetricsOf(*servers_[0]).calls, before + 3);
}

}  // namespace
}  // namespace verbena::end_to_end
