// Clients and servers whose device fails at random, from a seed: whatever comes
// together, everybody is told in time, in words, and gives everything back.
//
//   random_faults_test                  some seconds of seeds from 1 on
//   random_faults_test --seeds=10000    so many, however long it takes
//   random_faults_test --seed=17        that one again
//   random_faults_test --seed=17 --seeds=9   nine from it on

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <future>
#include <optional>
#include <random>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "tests/testing/seed_range.h"
#include "tests/testing/test_device.h"
#include "tests/testing/transport_client.h"
#include "tests/transport/faulty_fixture.h"
#include "transport/base/clock.h"
#include "transport/base/endpoint_options.h"
#include "transport/faulty/fault_plan.h"
#include "transport/soft/soft_faults.h"

namespace verbena::transport {

using testing_support::SeedRange;
using testing_support::TestOptions;
using testing_support::TestProvider;
using testing_support::TestServer;

namespace {

constexpr absl::Duration kPatience = absl::Milliseconds(200);

constexpr const char* kFunctions[] = {"accept",        "alloc_pd",
                                      "cm.create_qp",  "connect",
                                      "create_cq",     "create_id",
                                      "create_srq",    "create_comp_channel",
                                      "disconnect",    "get_cm_event",
                                      "get_cq_event",  "migrate_id",
                                      "modify_qp",     "poll_cq",
                                      "post_send",     "post_srq_recv",
                                      "reg_mr",        "req_notify_cq",
                                      "reject",        "resolve_addr",
                                      "resolve_route", "create_event_channel"};
constexpr int kErrors[] = {EAGAIN, EINVAL, EIO, ENOMEM, ENOSPC};
constexpr ibv_wc_status kStatuses[] = {
    IBV_WC_LOC_PROT_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_RETRY_EXC_ERR,
    IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR};
constexpr rdma_cm_event_type kEvents[] = {
    RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED,
    RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_ESTABLISHED,
    RDMA_CM_EVENT_DISCONNECTED};
constexpr rdma_cm_event_type kFailures[] = {
    RDMA_CM_EVENT_CONNECT_ERROR, RDMA_CM_EVENT_DEVICE_REMOVAL,
    RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_REJECTED,
    RDMA_CM_EVENT_UNREACHABLE};

// As far as the runs below get.
constexpr uint64_t kCallsMax = 15;
constexpr uint64_t kCompletionsMax = 20;
constexpr int kFaultsMax = 5;

class RandomFaults {
 public:
  explicit RandomFaults(uint64_t seed) : random_(seed) {}

  uint64_t Below(uint64_t bound) { return random_() % bound; }

  void AddTo(FaultPlan& plan) {
    for (uint64_t i = 0, count = 1 + Below(kFaultsMax); i < count; ++i) {
      AddOneTo(plan);
    }
  }

 private:
  template <typename T, size_t kCount>
  T OneOf(const T (&choices)[kCount]) {
    return choices[Below(kCount)];
  }

  void AddOneTo(FaultPlan& plan) {
    const uint64_t call = 1 + Below(kCallsMax);
    const uint64_t completion = 1 + Below(kCompletionsMax);
    switch (Below(8)) {
      case 0:
      case 1:
        plan.FailCall(OneOf(kFunctions), call, OneOf(kErrors), 1 + Below(3));
        return;
      case 2:
        plan.DelayCall(OneOf(kFunctions), call,
                       absl::Milliseconds(static_cast<int64_t>(Below(20))));
        return;
      case 3:
        plan.DropCompletion(completion);
        return;
      case 4:
        plan.DelayCompletion(completion, static_cast<uint32_t>(Below(100)));
        return;
      case 5:
        plan.FailCompletion(completion, OneOf(kStatuses));
        return;
      case 6:
        plan.RemoveDevice(OneOf(kFunctions), call);
        return;
      default:
        AddEventTo(plan);
        return;
    }
  }

  void AddEventTo(FaultPlan& plan) {
    const rdma_cm_event_type type = OneOf(kEvents);
    const uint64_t event = 1 + Below(3);
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST || Below(2) == 0) {
      plan.DropEvent(type, event);
    } else {
      plan.ReplaceEvent(type, event, OneOf(kFailures), -EIO);
    }
  }

  std::mt19937_64 random_;
};

// On the software device, all links of the process are cut, or stall, some time
// after a run has begun, for a while.
class LinkFault {
 public:
  explicit LinkFault(RandomFaults& random)
      : cut_(random.Below(2) == 0),
        begin_(random.Below(5000)),
        length_(random.Below(300'000)),
        thread_([this] { Run(); }) {}
  // Ends it now.
  ~LinkFault() {
    end_.set_value();
    thread_.join();
  }

 private:
  void Run() {
    ended_.wait_for(begin_);
    if (cut_) {
      soft::CutAllLinks();
    } else {
      soft::StallAllLinks();
    }
    ended_.wait_for(length_);
    soft::ReleaseAllLinks();
  }

  const bool cut_;
  const std::chrono::microseconds begin_;
  const std::chrono::microseconds length_;
  std::promise<void> end_;
  std::future<void> ended_ = end_.get_future();
  std::thread thread_;
};

EndpointOptions Options() { return ImpatientOptions(kPatience, kPatience / 2); }

class RandomFaultsTest : public FaultyFixture {
 public:
  explicit RandomFaultsTest(const SeedRange& range) : range_(range) {}

  void TestBody() override {
    const absl::Time end = base::Now() + range_.longest;
    uint64_t seed = range_.first;
    for (; seed - range_.first < range_.count && base::Now() < end; ++seed) {
      FaultPlan plan;
      Run(seed, plan);
      if (!HasFailure()) continue;
      ADD_FAILURE() << "to repeat it: --seed=" << seed << "\nwhat was done:\n"
                    << absl::StrJoin(plan.faults(), "\n");
      return;
    }
    std::printf("%s seeds from %s on\n",
                absl::StrCat(seed - range_.first).c_str(),
                absl::StrCat(range_.first).c_str());
  }

 private:
  void Run(uint64_t seed, FaultPlan& plan) {
    RandomFaults random(seed);
    random.AddTo(plan);
    const bool client_fails = random.Below(2) == 0;
    std::optional<LinkFault> link;
    if (random.Below(3) == 0) link.emplace(random);
    faulty_.SetPlan(plan);
    const absl::Time start = base::Now();
    if (client_fails) {
      RunClient(link);
    } else {
      RunServer();
    }
    link.reset();
    EXPECT_LT(base::Now() - start, 2 * kAtOnce);
    EXPECT_EQ(faulty_.objects(), 0u);
    faulty_.SetPlan(no_faults_);
  }

  // Runs two clients with faults. The next client of the same server must not
  // be harmed.
  void RunClient(std::optional<LinkFault>& link) {
    TestServer server(TestOptions());
    for (int i = 0; i < 2; ++i) {
      ExpectClear(
          Use(faulty_.provider(), server.address(), Options(), kPatience));
    }
    link.reset();
    const absl::Status after =
        Use(TestProvider(), server.address(), TestOptions(), kAtOnce);
    EXPECT_TRUE(after.ok()) << after;
  }

  // Runs a server with faults. The server and its clients must end in time.
  void RunServer() {
    const FaultyServer server(faulty_, Options());
    ExpectClear(server.status());
    if (server.status().ok()) {
      FailedClients(server.address(), Options(), kPatience);
    }
  }

  const SeedRange range_;
};

}  // namespace

void RegisterRandomFaults(const SeedRange& range) {
  testing::RegisterTest(
      "RandomFaultsTest", "EverybodyIsToldInTime", nullptr, nullptr, __FILE__,
      __LINE__,
      [range]() -> FaultyFixture* { return new RandomFaultsTest(range); });
}

}  // namespace verbena::transport

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  verbena::transport::RegisterRandomFaults(
      verbena::testing_support::ParseSeedRange(argc, argv));
  return RUN_ALL_TESTS();
}
