#include "rpc/internal/metrics/poller_snapshot.h"

#include "gtest/gtest.h"
#include "transport/session/connection_state.h"

namespace verbena::internal {
namespace {

using transport::ConnectionState;
using transport::PollerCounters;

TEST(PollerSnapshotTest, AddsDevicesOfOneNameUp) {
  PollerCounters one;
  one.polls.Add(5);
  one.Device("soft").begun.Add(2);
  one.Device("soft")
      .connections[static_cast<size_t>(ConnectionState::kDraining)]
      .Add();
  PollerCounters other;
  other.polls.Add(3);
  other.Device("rxe0").credit_waits.Add(4);
  other.Device("rxe0").slot_waits.Add(5);
  other.Device("soft").begun.Add(1);
  PollerMetrics metrics;
  AddPoller(one, &metrics);
  AddPoller(other, &metrics);
  EXPECT_EQ(metrics.pollers, 2u);
  EXPECT_EQ(metrics.polls, 8u);
  ASSERT_EQ(metrics.devices.size(), 2u);
  EXPECT_EQ(metrics.devices[0].device, "soft");
  EXPECT_EQ(metrics.devices[0].connections_begun, 3u);
  EXPECT_EQ(metrics.devices[0].closing, 1u);
  EXPECT_EQ(metrics.devices[0].open, 0u);
  EXPECT_EQ(metrics.devices[1].credit_waits, 4u);
  EXPECT_EQ(metrics.devices[1].slot_waits, 5u);
}

}  // namespace
}  // namespace verbena::internal
