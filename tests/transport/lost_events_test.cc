// The connection manager dies at each of its steps: each event of a client, and
// of a server, is lost or says the opposite. What comes of it is a clear
// Status, in time, and everything is given back.

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tests/testing/test_device.h"
#include "tests/testing/transport_client.h"
#include "tests/transport/faulty_fixture.h"
#include "transport/base/clock.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/socket_address.h"
#include "transport/client/client_connection.h"
#include "transport/client/lone_connection.h"
#include "transport/faulty/fault_plan.h"
#include "transport/verbs/cm_event.h"

namespace verbena::transport {
namespace {

using testing_support::kTestTimeout;
using testing_support::TestClient;
using testing_support::TestOptions;
using testing_support::TestProvider;
using testing_support::TestServer;

// If an event is lost, a side waits this long before it gives up.
constexpr absl::Duration kPatience = absl::Seconds(1);

EndpointOptions Options() { return ImpatientOptions(kPatience, kPatience / 3); }

// An event, and the one that is seen instead; nothing if the event is lost.
struct EventFault {
  rdma_cm_event_type type;
  std::optional<rdma_cm_event_type> instead;
  int status = 0;

  std::string ToString() const {
    return absl::StrCat(
        CmEventName(type), " ",
        instead.has_value()
            ? absl::StrCat("as ", CmEventName(*instead), " ", status)
            : "lost");
  }
  void Add(FaultPlan& plan, uint64_t n) const {
    if (instead.has_value()) {
      plan.ReplaceEvent(type, n, *instead, status);
    } else {
      plan.DropEvent(type, n);
    }
  }
};

// Each step of connecting. Without its event nobody connects.
constexpr EventFault kClientFaults[] = {
    {RDMA_CM_EVENT_ADDR_RESOLVED, std::nullopt},
    {RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH},
    {RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_DEVICE_REMOVAL},
    {RDMA_CM_EVENT_ROUTE_RESOLVED, std::nullopt},
    {RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT},
    {RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_DEVICE_REMOVAL},
    {RDMA_CM_EVENT_ESTABLISHED, std::nullopt},
    {RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL},
    {RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_DEVICE_REMOVAL},
    {RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_DISCONNECTED},
    {RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_REJECTED, kRejectByApplication},
    {RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_REJECTED, kRejectNobodyListens},
    {RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT},
};

constexpr EventFault kServerFaults[] = {
    {RDMA_CM_EVENT_CONNECT_REQUEST, std::nullopt},
    {RDMA_CM_EVENT_ESTABLISHED, std::nullopt},
    {RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL},
    {RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_DEVICE_REMOVAL},
    {RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_DISCONNECTED},
    {RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_REJECTED, kRejectByApplication},
    {RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT},
    {RDMA_CM_EVENT_DISCONNECTED, std::nullopt},
    {RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_DEVICE_REMOVAL},
};

using LostEventsTest = FaultyFixture;

TEST_F(LostEventsTest, AClientThatLosesAStepOfConnectingSaysWhich) {
  // Which does not give up before the client does.
  TestServer server(TestOptions());
  for (const EventFault& fault : kClientFaults) {
    SCOPED_TRACE(fault.ToString());
    FaultPlan plan;
    fault.Add(plan, 1);
    faulty_.SetPlan(plan);
    const absl::Time start = base::Now();
    const absl::Status status =
        Use(faulty_.provider(), server.address(), Options(), kPatience);
    EXPECT_LT(base::Now() - start, kAtOnce);
    EXPECT_EQ(plan.faults().size(), 1u);
    EXPECT_FALSE(status.ok());
    ExpectClear(status);
    if (!fault.instead.has_value()) {
      EXPECT_NE(status.message().find(CmEventName(fault.type)),
                absl::string_view::npos)
          << status;
    }
    EXPECT_EQ(faulty_.objects(), 0u);
    faulty_.SetPlan(no_faults_);
  }
  const absl::Status after =
      Use(TestProvider(), server.address(), Options(), kPatience);
  EXPECT_TRUE(after.ok()) << after;
}

TEST_F(LostEventsTest, AClientAsksAgainForAnAddressThatNobodyAnsweredFor) {
  TestServer server(TestOptions());
  FaultPlan plan;
  for (uint64_t n = 1; n <= 2; ++n) {
    plan.ReplaceEvent(RDMA_CM_EVENT_ADDR_RESOLVED, n, RDMA_CM_EVENT_ADDR_ERROR,
                      -ETIMEDOUT);
  }
  faulty_.SetPlan(plan);
  const absl::Status status =
      Use(faulty_.provider(), server.address(), TestOptions(), kTestTimeout);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(plan.faults().size(), 2u);
  EXPECT_EQ(plan.calls("resolve_addr"), 3u);
  EXPECT_EQ(faulty_.objects(), 0u);
  faulty_.SetPlan(no_faults_);
}

TEST_F(LostEventsTest, AServerThatLosesAnEventLosesOneClientAtMost) {
  for (const EventFault& fault : kServerFaults) {
    for (uint64_t n = 1; n <= 3; ++n) {
      SCOPED_TRACE(absl::StrCat(fault.ToString(), ", ", n));
      FaultPlan plan;
      fault.Add(plan, n);
      faulty_.SetPlan(plan);
      const absl::Time start = base::Now();
      {
        FaultyServer server(faulty_, Options());
        ASSERT_TRUE(server.status().ok()) << server.status();
        EXPECT_LE(FailedClients(server.address(), Options(), kPatience), 1);
      }
      EXPECT_LT(base::Now() - start, kAtOnce);
      EXPECT_EQ(faulty_.objects(), 0u);
      faulty_.SetPlan(no_faults_);
    }
  }
}

// The client is not told that the server is gone, and notices it by itself.
TEST_F(LostEventsTest, AClientWithoutTheLastEventEndsItsCalls) {
  FaultPlan plan;
  plan.DropEvent(RDMA_CM_EVENT_DISCONNECTED, 1);
  faulty_.SetPlan(plan);
  std::optional<TestServer> server(std::in_place, Options());
  {
    absl::StatusOr<LoneConnection> connection = LoneConnection::Connect(
        faulty_.provider(),
        *base::SocketAddress::ParseNumeric(server->address()), Options());
    ASSERT_TRUE(connection.ok()) << connection.status();
    TestClient client(*std::move(connection));
    ASSERT_TRUE(client.Echo(10).ok());
    server.reset();
    const absl::Time start = base::Now();
    const absl::Status status = client.Echo(10);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_LT(base::Now() - start, kAtOnce);
  }
  EXPECT_EQ(faulty_.objects(), 0u);
  faulty_.SetPlan(no_faults_);
}

}  // namespace
}  // namespace verbena::transport
