// A channel whose servers announce themselves in a cluster of etcd.

#include <algorithm>
#include <atomic>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/resolvers/etcd_registration.h"
#include "rpc/resolvers/etcd_resolver.h"
#include "rpc/rpc.h"
#include "tests/integration/test_service.h"
#include "tests/testing/etcd_cluster.h"
#include "transport/base/clock.h"

namespace verbena::end_to_end {
namespace {

using testing_support::EtcdCluster;

constexpr absl::Duration kPatience = absl::Minutes(1);

// A server, announced in etcd or not.
struct EtcdServer {
  std::string address;
  std::unique_ptr<Server> server;
  std::unique_ptr<EtcdRegistration> registration;
};

class EtcdNamesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { etcd_.emplace(3); }
  static void TearDownTestSuite() { etcd_.reset(); }

  // Gives a member that is silent up after a part of a second.
  static EtcdOptions Options() {
    return {.end_points = etcd_->addresses(),
            .request_timeout = absl::Milliseconds(500),
            .check_interval = absl::Milliseconds(200),
            .first_backoff = absl::Milliseconds(10),
            .max_backoff = absl::Milliseconds(100)};
  }

  EtcdServer StartServer() {
    EtcdServer started;
    int port = 0;
    ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", &port);
    builder.RegisterService(&service_);
    auto server = builder.BuildAndStart();
    EXPECT_TRUE(server.ok()) << server.status();
    started.server = *std::move(server);
    started.address = absl::StrCat("127.0.0.1:", port);
    return started;
  }

  EtcdServer StartAnnounced(const std::string& prefix) {
    EtcdServer started = StartServer();
    auto registration = EtcdRegistration::Start(
        {.prefix = prefix, .addresses = {started.address}}, Options());
    EXPECT_TRUE(registration.ok()) << registration.status();
    started.registration = *std::move(registration);
    EXPECT_EQ(started.registration->Await(kPatience), absl::OkStatus());
    return started;
  }

  static std::shared_ptr<Channel> ChannelTo(const std::string& prefix) {
    ChannelOptions options;
    options.resolvers.push_back(NewEtcdResolvers(Options()));
    options.service_config =
        R"({"loadBalancingConfig": [{"round_robin": {}}]})";
    return CreateChannel(absl::StrCat("etcd:///", prefix), options);
  }

  // Makes a call. Returns the address of its server.
  static absl::StatusOr<std::string> Call(EndToEnd::Stub& stub) {
    ClientContext context;
    context.set_timeout(kPatience);
    context.set_wait_for_ready(true);
    EchoRequest request;
    EchoReply reply;
    const absl::Status status = stub.Echo(&context, request, &reply);
    if (!status.ok()) return status;
    return context.peer();
  }

  // Calls until a call reaches that server.
  static void CallUntil(EndToEnd::Stub& stub, const std::string& address) {
    for (;;) {
      const auto peer = Call(stub);
      ASSERT_TRUE(peer.ok()) << peer.status();
      if (*peer == address) return;
    }
  }

  // Calls until no call reaches that server in a round over all.
  static void CallUntilGone(EndToEnd::Stub& stub, const std::string& address) {
    for (int without = 0; without < 10; ++without) {
      const auto peer = Call(stub);
      ASSERT_TRUE(peer.ok()) << peer.status();
      if (*peer == address) without = -1;
    }
  }

  EndToEndService service_;
  static std::optional<EtcdCluster> etcd_;
};

std::optional<EtcdCluster> EtcdNamesTest::etcd_;

TEST_F(EtcdNamesTest, CallsReachAServerSoonAfterItIsWritten) {
  constexpr int kRounds = 100;
  EtcdServer server = StartAnnounced("soon");
  const auto stub = EndToEnd::NewStub(ChannelTo("soon"));
  CallUntil(*stub, server.address);
  std::vector<absl::Duration> times;
  for (int i = 0; i < kRounds; ++i) {
    EtcdServer next = StartServer();
    const absl::Time put = base::Now();
    etcd_->Put(absl::StrCat("soon/", next.address),
               absl::StrCat(R"({"address": ")", next.address, R"("})"));
    CallUntil(*stub, next.address);
    times.push_back(base::Now() - put);
    etcd_->Delete(absl::StrCat("soon/", next.address));
    CallUntilGone(*stub, next.address);
  }
  std::sort(times.begin(), times.end());
  std::cout << absl::StrFormat(
      "From the Put to the end of the first call: p50 %.1f ms, p99 %.1f ms\n",
      absl::ToDoubleMilliseconds(times[kRounds / 2]),
      absl::ToDoubleMilliseconds(times[kRounds * 99 / 100]));
  EXPECT_LT(times[kRounds / 2], absl::Seconds(5));
}

// Servers leave by withdrawal, as a drain does, and no call fails.
TEST_F(EtcdNamesTest, NoCallFailsWhenServersComeAndGoAndTheLeaderIsKilled) {
  std::vector<EtcdServer> servers;
  for (int i = 0; i < 3; ++i) servers.push_back(StartAnnounced("leader"));
  const auto stub = EndToEnd::NewStub(ChannelTo("leader"));
  for (const EtcdServer& each : servers) CallUntil(*stub, each.address);
  std::atomic<bool> end = false;
  std::atomic<int> calls = 0;
  std::thread caller([&] {
    while (!end) {
      const auto peer = Call(*stub);
      EXPECT_TRUE(peer.ok()) << peer.status();
      ++calls;
    }
  });

  for (int round = 0; round < 3; ++round) {
    const size_t leader = etcd_->Leader();
    etcd_->Kill(leader);
    EtcdServer next = StartAnnounced("leader");
    CallUntil(*stub, next.address);
    EtcdServer old = std::exchange(servers[round], std::move(next));
    EXPECT_EQ(old.registration->Withdraw(kPatience), absl::OkStatus());
    CallUntilGone(*stub, old.address);
    old.server->Shutdown();
    etcd_->Restart(leader);
  }
  end = true;
  caller.join();
  EXPECT_GT(calls, 0);
}

TEST_F(EtcdNamesTest, AMemberThatIsStoppedKeepsNobodyBack) {
  for (size_t member = 0; member < 3; ++member) {
    const std::string prefix = absl::StrCat("stopped", member);
    const EtcdServer first = StartAnnounced(prefix);
    const auto stub = EndToEnd::NewStub(ChannelTo(prefix));
    CallUntil(*stub, first.address);
    etcd_->Freeze(member);
    EtcdServer second = StartAnnounced(prefix);
    CallUntil(*stub, second.address);
    second.registration = nullptr;
    CallUntilGone(*stub, second.address);
    etcd_->Thaw(member);
  }
}

TEST_F(EtcdNamesTest, CallsGoOnWithoutEtcd) {
  const EtcdServer server = StartAnnounced("without");
  const auto stub = EndToEnd::NewStub(ChannelTo("without"));
  CallUntil(*stub, server.address);
  for (size_t member = 0; member < 3; ++member) etcd_->Freeze(member);
  const absl::Time start = base::Now();
  while (base::Now() - start < absl::Seconds(1)) {
    ASSERT_TRUE(Call(*stub).ok());
  }
  for (size_t member = 0; member < 3; ++member) etcd_->Thaw(member);
  EXPECT_EQ(server.registration->Await(kPatience), absl::OkStatus());
}

}  // namespace
}  // namespace verbena::end_to_end
