// The state SQD while a message is under way over the link. What else drains is
// in tests/conformance.

#include <gtest/gtest.h>

#include <string>

#include "transport/soft/connected/connected_queue_pair.h"
#include "transport/soft/connected/held_link.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

TestEndOptions Large() {
  TestEndOptions options;
  options.memory_bytes = 2 << 20;
  return options;
}

int DrainAndTell(TestEnd& end) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_SQD;
  attributes.en_sqd_async_notify = 1;
  return end.verbs.modify_qp(end.qp, &attributes,
                             IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
}

class DrainTest : public testing::Test {
 protected:
  DrainTest() { ConnectManually(a, b); }

  int Drain() { return DrainAndTell(a); }
  int Resume() {
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_RTS;
    return a.verbs.modify_qp(a.qp, &attributes, IBV_QP_STATE);
  }
  bool Draining() {
    ibv_qp_attr attributes;
    ibv_qp_init_attr init;
    EXPECT_EQ(a.verbs.query_qp(a.qp, &attributes, 0, &init), 0);
    return attributes.sq_draining != 0;
  }

  // Otherwise the device's thread could be done before the test looks.
  void Stall() { HeldLinkOfB().Begin(HeldLink::Hold::kStalled); }
  void GoOn() { HeldLinkOfB().Release(); }
  HeldLink& HeldLinkOfB() {
    return ConnectedQueuePair::From(b.qp)->held_link();
  }

  // The device's thread may have taken the last answer: then its completion is
  // seen first.
  int DrainedEvent() { return a.NextAsyncEvent(); }

  TestEnd a{Large()};
  TestEnd b{Large()};
};

TEST_F(DrainTest, WhatHasBegunIsFinishedAndNothingElse) {
  const std::string text(1'000'000, 'x');
  a.Fill(0, text);
  ASSERT_EQ(b.Receive(1, 0, text.size()), 0);
  ASSERT_EQ(b.Receive(2, 0, 64), 0);
  Stall();
  ASSERT_EQ(a.Send(3, 0, text.size()), 0);  // More than the ring takes.
  ASSERT_EQ(a.Send(4, 0, 8), 0);
  ASSERT_EQ(Drain(), 0);
  EXPECT_TRUE(Draining());
  EXPECT_EQ(a.NextAsyncEvent(0), -1);
  GoOn();
  EXPECT_EQ(b.Wait(&a).byte_len, text.size());
  EXPECT_EQ(a.Wait(&b).wr_id, 3u);
  EXPECT_FALSE(Draining());
  EXPECT_EQ(DrainedEvent(), IBV_EVENT_SQ_DRAINED);
  EXPECT_TRUE(b.StaysQuiet(&a));
  ASSERT_EQ(Resume(), 0);
  EXPECT_EQ(b.Wait(&a).wr_id, 2u);
  EXPECT_EQ(a.NextAsyncEvent(0), -1) << "once";
}

TEST_F(DrainTest, AReadUnderWayIsWaitedFor) {
  b.Fill(0, "data");
  Stall();
  ASSERT_EQ(a.Read(1, 100, 4, b.Address(0), b.mr->rkey), 0);
  ASSERT_EQ(Drain(), 0);
  EXPECT_TRUE(Draining());
  GoOn();
  EXPECT_EQ(a.Wait(&b).wr_id, 1u);
  EXPECT_EQ(a.Text(100, 4), "data");
  EXPECT_EQ(DrainedEvent(), IBV_EVENT_SQ_DRAINED);
}

// The peer's program may sleep at its channel, or be busy with other things,
// and was not rung for an unhurried message.
TEST(DrainOfUnhurriedTest, NeedsNobodyToPollAtTheOtherEnd) {
  TestEnd a;
  TestEndOptions with_channel;
  with_channel.with_channel = true;
  TestEnd b(with_channel);
  ConnectManually(a, b);
  ASSERT_EQ(b.Receive(1, 0, 64), 0);
  ASSERT_EQ(a.Send(2, 0, 8, 0), 0);
  ASSERT_EQ(DrainAndTell(a), 0);
  EXPECT_EQ(a.NextAsyncEvent(), IBV_EVENT_SQ_DRAINED);
}

TEST_F(DrainTest, WhatThePeerHasExecutedIsNotFlushed) {
  for (uint64_t round = 0; round < 100; ++round) {
    TestEnd from;
    TestEnd to;
    ConnectManually(from, to);
    ASSERT_EQ(to.Receive(1, 0, 64), 0);
    ASSERT_EQ(from.Send(2, 0, 8), 0);
    ASSERT_EQ(to.Wait().status, IBV_WC_SUCCESS);
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_ERR;
    for (TestEnd* const end : {&to, &from}) {
      ASSERT_EQ(end->verbs.modify_qp(end->qp, &attributes, IBV_QP_STATE), 0);
    }
    ASSERT_EQ(from.Wait().status, IBV_WC_SUCCESS) << round;
  }
}

}  // namespace
}  // namespace verbena::soft
