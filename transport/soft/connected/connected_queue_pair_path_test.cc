// The ways that a queue pair has: ports that go down and come up, and migration
// to an alternate path.

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <thread>

#include "transport/soft/address/port_states.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/device/soft_device.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

constexpr uint8_t kForEver = 0;  // A timeout.

// Options of an end whose first path goes by `port`, with this timeout as
// modify_qp has it.
TestEndOptions On(uint8_t port, uint8_t timeout = 8,
                  ibv_qp_type type = IBV_QPT_RC) {
  TestEndOptions options;
  options.port = port;
  options.timeout = timeout;
  options.type = type;
  return options;
}

// Two queue pairs: a goes by port 1, b by port 2, so that each can be cut off.
class QueuePairPathTest : public testing::Test {
 protected:
  void TearDown() override {
    for (uint8_t port = 1; port <= kPorts; ++port) Raise(port);
  }

  void Connect(TestEnd& a, TestEnd& b) { ConnectManually(a, b); }
  // Afterwards a may migrate to port 2 and b to port 1, or `b_to`.
  void Arm(TestEnd& a, TestEnd& b, uint8_t b_to = 1) {
    ASSERT_EQ(a.Rearm(2), 0);
    ASSERT_EQ(b.Rearm(b_to), 0);
    ASSERT_EQ(a.MigrationState(), IBV_MIG_ARMED);
    ASSERT_EQ(b.MigrationState(), IBV_MIG_ARMED);
  }
  static void Cut(uint8_t port) {
    SoftDevice::Get().SetPortState(port, PortState::kDown);
  }
  static void Raise(uint8_t port) {
    SoftDevice::Get().SetPortState(port, PortState::kActive);
  }

  static void ExpectArrives(TestEnd& from, TestEnd& to) {
    ASSERT_EQ(to.Receive(1, 64, 64), 0);
    from.Fill(0, "hello");
    ASSERT_EQ(from.Send(2, 0, 5), 0);
    EXPECT_EQ(from.Wait(&to).status, IBV_WC_SUCCESS);
    EXPECT_EQ(to.Wait(&from).status, IBV_WC_SUCCESS);
    EXPECT_EQ(to.Text(64, 5), "hello");
  }
};

TEST_F(QueuePairPathTest, APortThatIsDownSaysSo) {
  TestEnd a(On(1));
  TestEnd b(On(2));
  Cut(2);
  ibv_port_attr port = {};
  ASSERT_EQ(a.verbs.query_port(a.context, 2, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_DOWN);
  ASSERT_EQ(a.verbs.query_port(a.context, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  Cut(2);
  Raise(2);
  for (TestEnd* end : {&a, &b}) {
    EXPECT_EQ(end->NextAsyncEvent(), IBV_EVENT_PORT_ERR);
    EXPECT_EQ(end->NextAsyncEvent(), IBV_EVENT_PORT_ACTIVE)
        << "and no second error";
  }
}

TEST_F(QueuePairPathTest, WhatIsSentByADeadPortExceedsItsRetries) {
  TestEnd a(On(1));
  TestEnd b(On(2));
  Connect(a, b);
  ASSERT_EQ(b.Receive(1, 0, 64), 0);
  Cut(1);
  ASSERT_EQ(a.Send(1, 0, 5), 0);
  EXPECT_EQ(a.Wait(&b).status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(a.State(), IBV_QPS_ERR);
  EXPECT_TRUE(b.StaysQuiet(&a, 10));
  EXPECT_EQ(b.State(), IBV_QPS_RTS) << "a NIC does not notice";
}

TEST_F(QueuePairPathTest, WhatIsSentToADeadPortExceedsItsRetriesToo) {
  TestEnd a(On(1));
  TestEnd b(On(2));
  Connect(a, b);
  ASSERT_EQ(b.Receive(1, 0, 64), 0);
  Cut(2);
  ASSERT_EQ(a.Send(1, 0, 5), 0);
  EXPECT_EQ(a.Wait(&b).status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(a.State(), IBV_QPS_ERR);
}

TEST_F(QueuePairPathTest, NothingIsLostIfThePortComesBackInTime) {
  for (const uint8_t port : {1, 2}) {
    TestEnd a(On(1, kForEver));
    TestEnd b(On(2, kForEver));
    Connect(a, b);
    Cut(port);
    ASSERT_EQ(b.Receive(1, 64, 64), 0);
    a.Fill(0, "hello");
    ASSERT_EQ(a.Send(2, 0, 5), 0);
    ASSERT_EQ(a.Read(3, 128, 64, b.Address(64), b.mr->rkey), 0);
    EXPECT_TRUE(a.StaysQuiet(&b));
    EXPECT_TRUE(b.StaysQuiet(&a));
    Raise(port);
    EXPECT_EQ(a.Wait(&b).wr_id, 2u);
    EXPECT_EQ(a.Wait(&b).wr_id, 3u);
    EXPECT_EQ(b.Wait(&a).status, IBV_WC_SUCCESS);
    EXPECT_EQ(a.Text(128, 5), "hello");
    ExpectArrives(b, a);
  }
}

TEST_F(QueuePairPathTest, ASleeperWakesWhenThePortIsBack) {
  TestEnd a(On(1, kForEver));
  TestEndOptions sleeper = On(2, kForEver);
  sleeper.with_channel = true;
  TestEnd b(sleeper);
  Connect(a, b);
  ASSERT_EQ(b.Receive(1, 64, 64), 0);
  ASSERT_EQ(ibv_req_notify_cq(b.cq, 0), 0);
  Cut(2);
  ASSERT_EQ(a.Send(2, 0, 5), 0);
  pollfd wait = {b.channel->fd, POLLIN, 0};
  EXPECT_EQ(poll(&wait, 1, 20), 0);
  Raise(2);
  EXPECT_EQ(poll(&wait, 1, 10000), 1);
}

TEST_F(QueuePairPathTest, AConnectionMadeByADeadPortWaitsForIt) {
  TestEnd a(On(1, kForEver));
  TestEnd b(On(2, kForEver));
  Cut(1);
  Connect(a, b);
  ASSERT_EQ(b.Receive(1, 64, 64), 0);
  ASSERT_EQ(a.Send(2, 0, 5), 0);
  EXPECT_TRUE(b.StaysQuiet(&a));
  Raise(1);
  EXPECT_EQ(b.Wait(&a).status, IBV_WC_SUCCESS);
}

TEST_F(QueuePairPathTest, AnArmedQueuePairLeavesADeadPort) {
  for (const uint8_t port : {1, 2}) {
    TestEnd a(On(1, kForEver));
    TestEnd b(On(1, kForEver));
    Connect(a, b);
    Arm(a, b, 2);
    ASSERT_EQ(b.Receive(1, 64, 64), 0);
    ASSERT_EQ(a.Send(2, 0, 5), 0);
    Cut(port);  // Port 2 is of no account.
    EXPECT_EQ(a.Wait(&b).status, IBV_WC_SUCCESS);
    EXPECT_EQ(b.Wait(&a).status, IBV_WC_SUCCESS);
    for (TestEnd* end : {&a, &b}) {
      EXPECT_EQ(end->MigrationState(),
                port == 1 ? IBV_MIG_MIGRATED : IBV_MIG_ARMED);
      EXPECT_EQ(end->NextAsyncEvent(), IBV_EVENT_PORT_ERR);
      EXPECT_EQ(end->NextAsyncEvent(0), port == 1 ? IBV_EVENT_PATH_MIG : -1);
    }
    Raise(port);
  }
}

TEST_F(QueuePairPathTest, MigratesThereAndBackAgain) {
  TestEnd a(On(1, kForEver));
  TestEnd b(On(1, kForEver));
  Connect(a, b);
  for (uint8_t port = 1; const uint8_t other : {2, 1, 2, 1}) {
    ASSERT_EQ(a.Rearm(other), 0);
    ASSERT_EQ(b.Rearm(other), 0);
    ASSERT_EQ(a.MigrationState(), IBV_MIG_ARMED);
    Cut(port);
    ExpectArrives(a, b);
    EXPECT_EQ(b.QueryPaths().port_num, other);
    Raise(port);
    port = other;
  }
}

// As the RDMA manual's example loads it, which takes the last port there is:
// the address names the first port still.
TEST_F(QueuePairPathTest, TheAlternatePortCountsAndNotThatOfItsAddress) {
  TestEnd a(On(1));
  TestEnd b(On(2));
  Connect(a, b);
  ibv_qp_attr attributes = {};
  attributes.alt_port_num = 2;
  attributes.alt_ah_attr = a.Path(a.gid.gid);
  attributes.alt_ah_attr.port_num = 1;
  attributes.path_mig_state = IBV_MIG_REARM;
  ASSERT_EQ(a.verbs.modify_qp(a.qp, &attributes,
                              IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE),
            0);
  ASSERT_EQ(b.Rearm(2), 0);
  ASSERT_EQ(a.MigrationState(), IBV_MIG_ARMED);
  Cut(1);
  EXPECT_EQ(a.MigrationState(), IBV_MIG_MIGRATED);
  ExpectArrives(a, b);
  Raise(1);
  attributes.alt_port_num = 3;
  EXPECT_EQ(a.verbs.modify_qp(a.qp, &attributes,
                              IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE),
            EINVAL);
}

TEST_F(QueuePairPathTest, WithoutALivingAlternateItStaysAndSaysSo) {
  TestEnd a(On(1, kForEver));
  TestEnd b(On(2, kForEver));
  Connect(a, b);
  Arm(a, b, 2);
  Cut(2);
  Cut(1);
  for (const ibv_event_type type :
       {IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ERR, IBV_EVENT_PATH_MIG_ERR}) {
    EXPECT_EQ(a.NextAsyncEvent(), type);
  }
  EXPECT_EQ(a.MigrationState(), IBV_MIG_ARMED);
  ASSERT_EQ(b.Receive(1, 64, 64), 0);
  ASSERT_EQ(a.Send(2, 0, 5), 0);
  EXPECT_TRUE(a.StaysQuiet(&b));
  Raise(2);  // For both: a's alternate path, and b's only one.
  EXPECT_EQ(a.Wait(&b).status, IBV_WC_SUCCESS);
  EXPECT_EQ(a.MigrationState(), IBV_MIG_MIGRATED);
}

TEST_F(QueuePairPathTest, APeerThatCannotFollowSaysSoAndStalls) {
  TestEnd a(On(1));
  TestEnd b(On(1, kForEver));
  Connect(a, b);
  ASSERT_EQ(a.Rearm(1), 0);  // By the primary path's port.
  ASSERT_EQ(b.Rearm(2), 0);
  ASSERT_EQ(a.MigrationState(), IBV_MIG_ARMED);
  Cut(2);
  EXPECT_EQ(b.NextAsyncEvent(), IBV_EVENT_PORT_ERR);
  ASSERT_EQ(a.SetMigrationState(IBV_MIG_MIGRATED), 0);
  EXPECT_EQ(b.NextAsyncEvent(), IBV_EVENT_PATH_MIG_ERR);
  ASSERT_EQ(a.Send(2, 0, 5), 0);
  EXPECT_EQ(a.Wait(&b).status, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(QueuePairPathTest, RetriesThatAreExceededTryTheOtherPathFirst) {
  TestEnd a(On(1));
  TestEnd b(On(2, kForEver));
  Connect(a, b);
  Arm(a, b, 2);
  Cut(2);  // b has no way left.
  EXPECT_EQ(a.NextAsyncEvent(), IBV_EVENT_PORT_ERR);
  ASSERT_EQ(a.Rearm(1), 0);
  ASSERT_EQ(a.MigrationState(), IBV_MIG_ARMED);
  ASSERT_EQ(a.Send(1, 0, 5), 0);
  EXPECT_EQ(a.NextAsyncEvent(), IBV_EVENT_PATH_MIG);
  EXPECT_EQ(a.Wait(&b).status, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(QueuePairPathTest, AQueuePairThatWasResetHasNoAlternatePath) {
  TestEnd a(On(1));
  TestEnd b(On(2));
  Connect(a, b);
  Arm(a, b);
  ASSERT_EQ(a.SetMigrationState(IBV_MIG_MIGRATED), 0);
  EXPECT_EQ(b.NextAsyncEvent(), IBV_EVENT_PATH_MIG);
  for (TestEnd* end : {&a, &b}) ASSERT_EQ(end->To(IBV_QPS_RESET), 0);
  Connect(a, b);
  EXPECT_EQ(a.QueryPaths().port_num, 1);
  EXPECT_EQ(a.SetMigrationState(IBV_MIG_REARM), EINVAL);
  Arm(a, b);
  ExpectArrives(a, b);
}

TEST_F(QueuePairPathTest, NothingIsLostWhileThePathsChange) {
  constexpr size_t kLength = 40'000;
  TestEnd a(On(1, kForEver));
  TestEnd b(On(2, kForEver));
  Connect(a, b);
  std::atomic<bool> done = false;
  std::thread saboteur([&done] {
    for (int i = 0; i < 2000 && !done; ++i) {
      const uint8_t port = i % kPorts + 1;
      Cut(port);
      std::this_thread::yield();
      Raise(port);
    }
  });
  for (int i = 0; i < 200; ++i) {
    a.Fill(0, std::string(kLength, static_cast<char>(i)));
    ASSERT_EQ(b.Receive(1, 0, kLength), 0);
    ASSERT_EQ(a.Send(2, 0, kLength), 0);
    ASSERT_EQ(a.Wait(&b).status, IBV_WC_SUCCESS);
    ASSERT_EQ(b.Wait(&a).status, IBV_WC_SUCCESS);
    ASSERT_EQ(b.Text(0, kLength), a.Text(0, kLength));
    for (TestEnd* end : {&a, &b}) {
      ASSERT_EQ(end->Rearm(end->QueryPaths().port_num == 1 ? 2 : 1, kForEver),
                0);
    }
  }
  done = true;
  saboteur.join();
}

TEST_F(QueuePairPathTest, UnreliableConnectionsMigrateToo) {
  TestEnd a(On(1, kForEver, IBV_QPT_UC));
  TestEnd b(On(1, kForEver, IBV_QPT_UC));
  Connect(a, b);
  Arm(a, b, 2);
  Cut(1);
  ExpectArrives(a, b);
  EXPECT_EQ(b.QueryPaths().port_num, 2);
}

TEST_F(QueuePairPathTest, WhatAnUnreliableOneSendsMeanwhileIsLost) {
  for (const uint8_t port : {1, 2}) {
    TestEnd a(On(1, kForEver, IBV_QPT_UC));
    TestEnd b(On(2, kForEver, IBV_QPT_UC));
    Connect(a, b);
    Cut(port);
    a.QueryPaths();  // Looks whether the peer has said that it is cut off.
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(a.Send(i, 0, 5), 0);
      EXPECT_EQ(a.Wait(&b).status, IBV_WC_SUCCESS) << "it has been sent";
    }
    Raise(port);
    ExpectArrives(a, b);
    EXPECT_TRUE(b.StaysQuiet(&a, 10));
    EXPECT_EQ(b.State(), IBV_QPS_RTS);
  }
}

TEST_F(QueuePairPathTest, DatagramsAreLostAtADeadPort) {
  DatagramTestEnd a;
  DatagramTestEnd b;
  ASSERT_EQ(b.Receive(1, 0, 200), 0);
  Cut(1);
  ASSERT_EQ(a.SendTo(b, 2, 0, 5), 0);
  EXPECT_EQ(a.Wait().status, IBV_WC_SUCCESS) << "it has been sent";
  EXPECT_TRUE(b.StaysQuiet(&a));
  Raise(1);
  EXPECT_TRUE(b.StaysQuiet(&a));
  ASSERT_EQ(a.SendTo(b, 3, 0, 6), 0);
  EXPECT_EQ(b.Wait(&a).byte_len, 40u + 6u);
}

}  // namespace
}  // namespace verbena::soft
