// Each completion of a client, and of a server, is lost, late or a failure
// once: what comes of it is a clear Status, in time, and everything is given
// back.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/testing/test_device.h"
#include "tests/testing/transport_client.h"
#include "tests/transport/faulty_fixture.h"
#include "transport/base/clock.h"
#include "transport/base/endpoint_options.h"
#include "transport/faulty/fault_plan.h"

namespace verbena::transport {
namespace {

using testing_support::TestProvider;
using testing_support::TestServer;

// If a completion is lost, a side waits this long before it gives up.
constexpr absl::Duration kPatience = absl::Seconds(1);

// A few polls: a poller that spins makes them before it sleeps.
constexpr uint32_t kPollsLate = 5;

// Clients that use the server, one after the other. The second one tests that
// the server still works after a fault in the first one's calls.
constexpr int kClients = 2;

EndpointOptions Options() { return ImpatientOptions(kPatience, kPatience / 2); }

class LostCompletionsTest : public FaultyFixture {
 protected:
  // The outcomes that a test allows to its client.
  enum class Outcome { kGood, kAny, kAnyForTheDeviceLies };

  // Runs a client once for each completion that it sees. `set` adds the fault
  // for that completion to the plan.
  template <typename Set>
  void SweepClient(const Set& set, Outcome allowed) {
    TestServer server(Options());
    FaultPlan control;
    RunClient(server, control, Outcome::kGood);
    ASSERT_GT(control.completions(), 5u);
    size_t hit = 0;
    for (uint64_t n = 1; n <= control.completions(); ++n) {
      SCOPED_TRACE(absl::StrCat("completion ", n));
      FaultPlan plan;
      set(plan, n);
      RunClient(server, plan, allowed);
      hit += plan.faults().size();
    }
    EXPECT_GT(hit, 5u);
    const absl::Status after =
        Use(TestProvider(), server.address(), Options(), kPatience);
    EXPECT_TRUE(after.ok()) << after;
  }

  // As SweepClient(), but the faults are those of a server, which serves
  // kClients clients.
  template <typename Set>
  void SweepServer(const Set& set, Outcome allowed) {
    FaultPlan control;
    RunServer(control, Outcome::kGood);
    ASSERT_GT(control.completions(), 10u);
    for (uint64_t n = 1; n <= control.completions(); ++n) {
      SCOPED_TRACE(absl::StrCat("completion ", n));
      FaultPlan plan;
      set(plan, n);
      RunServer(plan, allowed);
    }
  }

 private:
  void RunClient(const TestServer& server, FaultPlan& plan, Outcome allowed) {
    faulty_.SetPlan(plan);
    const absl::Time start = base::Now();
    const absl::Status status =
        Use(faulty_.provider(), server.address(), Options(), kPatience);
    EXPECT_LT(base::Now() - start, kAtOnce);
    EXPECT_TRUE(status.ok() || allowed != Outcome::kGood) << status;
    ExpectClear(status, allowed == Outcome::kAnyForTheDeviceLies);
    EXPECT_EQ(faulty_.objects(), 0u);
    faulty_.SetPlan(no_faults_);
  }

  void RunServer(FaultPlan& plan, Outcome allowed) {
    faulty_.SetPlan(plan);
    const absl::Time start = base::Now();
    {
      FaultyServer server(faulty_, Options());
      ASSERT_TRUE(server.status().ok()) << server.status();
      const int failed =
          FailedClients(server.address(), Options(), kPatience, kClients,
                        allowed == Outcome::kAnyForTheDeviceLies);
      EXPECT_LE(failed, allowed == Outcome::kGood ? 0 : 1);
    }
    EXPECT_LT(base::Now() - start, kAtOnce);
    EXPECT_EQ(faulty_.objects(), 0u);
    faulty_.SetPlan(no_faults_);
  }
};

void Drop(FaultPlan& plan, uint64_t n) { plan.DropCompletion(n); }
void Delay(FaultPlan& plan, uint64_t n) { plan.DelayCompletion(n, kPollsLate); }
void Fail(FaultPlan& plan, uint64_t n) {
  plan.FailCompletion(n, IBV_WC_RETRY_EXC_ERR);
}

constexpr FaultPlan::Lie kLies[] = {
    FaultPlan::Lie::kUnknownNumber, FaultPlan::Lie::kTwice,
    FaultPlan::Lie::kTooLong, FaultPlan::Lie::kOtherOpcode,
    FaultPlan::Lie::kUnknownQueuePair};

TEST_F(LostCompletionsTest, AClientWhoseDeviceLiesEndsInTime) {
  for (const FaultPlan::Lie lie : kLies) {
    SCOPED_TRACE(absl::StrCat("lie ", static_cast<int>(lie)));
    SweepClient([lie](FaultPlan& plan, uint64_t n) { plan.Misreport(n, lie); },
                Outcome::kAnyForTheDeviceLies);
  }
}

TEST_F(LostCompletionsTest, AServerWhoseDeviceLiesLosesOneClientAtMost) {
  for (const FaultPlan::Lie lie : kLies) {
    SCOPED_TRACE(absl::StrCat("lie ", static_cast<int>(lie)));
    SweepServer([lie](FaultPlan& plan, uint64_t n) { plan.Misreport(n, lie); },
                Outcome::kAnyForTheDeviceLies);
  }
}

TEST_F(LostCompletionsTest, AClientThatLosesOneEndsInTime) {
  SweepClient(Drop, Outcome::kAny);
}

TEST_F(LostCompletionsTest, AClientIsNotHarmedByALateOne) {
  SweepClient(Delay, Outcome::kGood);
}

TEST_F(LostCompletionsTest, AClientWhoseRequestFailsSaysSo) {
  SweepClient(Fail, Outcome::kAny);
}

TEST_F(LostCompletionsTest, AServerThatLosesOneLosesOneClientAtMost) {
  SweepServer(Drop, Outcome::kAny);
}

TEST_F(LostCompletionsTest, AServerIsNotHarmedByALateOne) {
  SweepServer(Delay, Outcome::kGood);
}

TEST_F(LostCompletionsTest, AServerWhoseRequestFailsLosesOneClientAtMost) {
  SweepServer(Fail, Outcome::kAny);
}

}  // namespace
}  // namespace verbena::transport
