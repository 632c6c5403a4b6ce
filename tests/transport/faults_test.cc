// Every verb and every function of the connection manager that the transport
// calls fails once, at each of its first calls: what comes of it is a clear
// Status, in time, and everything is given back.

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/testing/test_device.h"
#include "tests/testing/transport_client.h"
#include "tests/transport/faulty_fixture.h"
#include "transport/base/clock.h"
#include "transport/faulty/fault_plan.h"

namespace verbena::transport {
namespace {

using testing_support::TestOptions;
using testing_support::TestProvider;
using testing_support::TestServer;

// The functions of the device and the connection manager that each side calls.
constexpr const char* kClientFunctions[] = {
    "alloc_pd",      "cm.create_qp", "connect",      "create_comp_channel",
    "create_cq",     "create_id",    "create_srq",   "create_event_channel",
    "disconnect",    "get_cm_event", "modify_qp",    "poll_cq",
    "post_send",     "query_device", "reg_mr",       "post_srq_recv",
    "req_notify_cq", "resolve_addr", "resolve_route"};
constexpr const char* kServerFunctions[] = {
    "accept",       "alloc_pd",     "bind_addr",    "cm.create_qp",
    "create_cq",    "create_id",    "create_srq",   "create_comp_channel",
    "disconnect",   "get_cm_event", "get_cq_event", "create_event_channel",
    "listen",       "migrate_id",   "modify_qp",    "poll_cq",
    "post_send",    "query_device", "reg_mr",       "post_srq_recv",
    "req_notify_cq"};

// Functions that are called all the time, as often as the clock demands, are
// failed at their first calls only.
constexpr uint64_t kCallsMax = 12;

EndpointOptions Options() {
  EndpointOptions options = TestOptions();
  options.connect_timeout = absl::Seconds(2);
  // So that a server sleeps between two clients, and is woken, in every run.
  options.spin_budget = absl::ZeroDuration();
  return options;
}

class FaultsTest : public FaultyFixture {
 protected:
  static absl::Status Use(const Provider& provider,
                          const std::string& address) {
    return FaultyFixture::Use(provider, address, Options(), kAtOnce / 2);
  }
  static int FailedClients(const std::string& address) {
    return FaultyFixture::FailedClients(address, Options(), kAtOnce / 2);
  }
};

TEST_F(FaultsTest, AClientWhoseDeviceFailsSaysSoAndLeavesNothing) {
  TestServer server(TestOptions());
  for (const char* const function : kClientFunctions) {
    bool untouched = false;
    for (uint64_t n = 1; n <= kCallsMax && !untouched; ++n) {
      SCOPED_TRACE(absl::StrCat(function, " call ", n));
      FaultPlan plan;
      plan.FailCall(function, n, EIO);
      faulty_.SetPlan(plan);
      const absl::Time start = base::Now();
      const absl::Status status = Use(faulty_.provider(), server.address());
      EXPECT_LT(base::Now() - start, kAtOnce);
      untouched = plan.faults().empty();
      if (untouched) {
        EXPECT_GT(n, 1u) << "it is not called";
        EXPECT_TRUE(status.ok()) << status;
      }
      ExpectClear(status);
      EXPECT_EQ(faulty_.objects(), 0u);
      faulty_.SetPlan(no_faults_);
    }
  }
  const absl::Status after = Use(TestProvider(), server.address());
  EXPECT_TRUE(after.ok()) << after;
}

TEST_F(FaultsTest, AServerWhoseDeviceFailsOnceLosesOneClientAtMost) {
  for (const char* const function : kServerFunctions) {
    bool untouched = false;
    for (uint64_t n = 1; n <= kCallsMax && !untouched; ++n) {
      SCOPED_TRACE(absl::StrCat(function, " call ", n));
      FaultPlan plan;
      plan.FailCall(function, n, EIO);
      faulty_.SetPlan(plan);
      bool started = false;
      int failed = 0;
      {
        FaultyServer server(faulty_, Options());
        ExpectClear(server.status());
        started = server.status().ok();
        if (started) failed = FailedClients(server.address());
      }
      EXPECT_LE(failed, 1);
      untouched = plan.faults().empty();
      if (untouched) {
        EXPECT_GT(n, 1u) << "it is not called";
        EXPECT_TRUE(started);
        EXPECT_EQ(failed, 0);
      }
      EXPECT_EQ(faulty_.objects(), 0u);
      faulty_.SetPlan(no_faults_);
    }
  }
}

// The server cannot make what it needs to accept the client, and its reject
// fails too.
TEST_F(FaultsTest, AServerThatCannotRejectLosesThatClientOnly) {
  FaultPlan plan;
  plan.FailCall("alloc_pd", 1, ENOMEM);
  plan.FailCall("reject", 1, EIO);
  faulty_.SetPlan(plan);
  {
    FaultyServer server(faulty_, Options());
    ASSERT_TRUE(server.status().ok()) << server.status();
    EXPECT_EQ(FailedClients(server.address()), 1);
  }
  EXPECT_EQ(plan.faults().size(), 2u);
  EXPECT_EQ(faulty_.objects(), 0u);
  faulty_.SetPlan(no_faults_);
}

// A device that takes no receives from some moment on ends its connections.
TEST_F(FaultsTest, AServerWithoutReceivesFailsItsClientsAndEnds) {
  for (uint64_t n = 1; n <= kCallsMax; ++n) {
    SCOPED_TRACE(absl::StrCat("from call ", n));
    FaultPlan plan;
    plan.FailCall("post_srq_recv", n, EIO, UINT64_MAX);
    faulty_.SetPlan(plan);
    {
      FaultyServer server(faulty_, Options());
      ExpectClear(server.status());
      if (server.status().ok()) FailedClients(server.address());
    }
    EXPECT_EQ(faulty_.objects(), 0u);
    faulty_.SetPlan(no_faults_);
  }
}

// --- A device that is removed or reset ---

// The calls after which it is, which a connection makes early and late.
constexpr const char* kRemovals[] = {"alloc_pd",  "create_cq",     "connect",
                                     "post_send", "post_srq_recv", "modify_qp"};

EndpointOptions RemovalOptions() {
  // A device that is gone sends nothing, so each side waits until it gives up.
  return ImpatientOptions(absl::Milliseconds(500), absl::Milliseconds(250));
}

TEST_F(FaultsTest, AClientWhoseDeviceIsRemovedSaysSoAndLeavesNothing) {
  TestServer server(TestOptions());
  for (const char* const function : kRemovals) {
    for (const uint64_t n : {1, 2, 5}) {
      SCOPED_TRACE(absl::StrCat("from ", function, " call ", n));
      FaultPlan plan;
      plan.RemoveDevice(function, n);
      faulty_.SetPlan(plan);
      const absl::Time start = base::Now();
      const absl::Status status = FaultyFixture::Use(
          faulty_.provider(), server.address(), RemovalOptions(), kAtOnce / 2);
      EXPECT_LT(base::Now() - start, kAtOnce);
      EXPECT_TRUE(status.ok() || !plan.faults().empty()) << status;
      ExpectClear(status);
      EXPECT_EQ(faulty_.objects(), 0u);
      faulty_.SetPlan(no_faults_);
    }
  }
  const absl::Status after = Use(TestProvider(), server.address());
  EXPECT_TRUE(after.ok()) << after;
}

TEST_F(FaultsTest, AServerWhoseDeviceIsRemovedFailsItsClientsAndEnds) {
  for (const char* const function : kRemovals) {
    for (const uint64_t n : {1, 2, 5}) {
      SCOPED_TRACE(absl::StrCat("from ", function, " call ", n));
      FaultPlan plan;
      plan.RemoveDevice(function, n);
      faulty_.SetPlan(plan);
      {
        FaultyServer server(faulty_, RemovalOptions());
        ExpectClear(server.status());
        if (server.status().ok()) {
          FaultyFixture::FailedClients(server.address(), RemovalOptions(),
                                       kAtOnce / 2, /*clients=*/2);
        }
      }
      EXPECT_EQ(faulty_.objects(), 0u);
      faulty_.SetPlan(no_faults_);
    }
  }
}

}  // namespace
}  // namespace verbena::transport
