// The state SQD: the send queue stops where one message ends.

#include <gtest/gtest.h>

#include <string>

#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

TestEndOptions Large() {
  TestEndOptions options;
  options.memory_bytes = 2 << 20;
  // 41 ms: who drains while a receiver is not ready finds its sender waiting,
  // and not trying once more.
  options.min_rnr_timer = 24;
  return options;
}

class DrainTest : public testing::Test {
 protected:
  DrainTest() { ConnectByHand(a, b); }

  int Drain() { return a.ToDrained(IBV_QP_EN_SQD_ASYNC_NOTIFY); }
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

  // The device's thread may have taken the last answer: then its completion is
  // seen first.
  int DrainedEvent() { return a.NextAsyncEvent(/*wait_ms=*/10'000); }

  TestEnd a{Large()};
  TestEnd b{Large()};
};

TEST_F(DrainTest, AnIdleQueueIsDrainedAtOnce) {
  ASSERT_EQ(Drain(), 0);
  EXPECT_EQ(a.State(), IBV_QPS_SQD);
  EXPECT_EQ(a.qp->state, IBV_QPS_SQD);
  EXPECT_FALSE(Draining());
  EXPECT_EQ(DrainedEvent(), IBV_EVENT_SQ_DRAINED);
}

TEST_F(DrainTest, TheEventComesOnlyIfItIsWanted) {
  ASSERT_EQ(a.ToDrained(), 0);
  EXPECT_EQ(a.NextAsyncEvent(), -1);
}

TEST_F(DrainTest, UnsignalledRequestsAreWaitedForToo) {
  ASSERT_EQ(a.Send(1, 0, 8, 0), 0);
  EXPECT_TRUE(a.StaysQuiet(&b)) << "b has no receive";
  ASSERT_EQ(Drain(), 0);
  EXPECT_TRUE(Draining());
  EXPECT_EQ(a.NextAsyncEvent(), -1);
  ASSERT_EQ(b.Receive(2, 0, 64), 0);
  while (Draining()) ASSERT_TRUE(a.StaysQuiet(&b, 1));
  EXPECT_EQ(DrainedEvent(), IBV_EVENT_SQ_DRAINED);
}

TEST_F(DrainTest, WhatIsPostedWaitsUntilItGoesOn) {
  ASSERT_EQ(Drain(), 0);
  ASSERT_EQ(b.Receive(1, 0, 64), 0);
  a.Fill(0, "later");
  ASSERT_EQ(a.Send(2, 0, 5), 0);
  EXPECT_TRUE(a.StaysQuiet(&b));
  EXPECT_TRUE(b.StaysQuiet(&a));
  ASSERT_EQ(Resume(), 0);
  EXPECT_EQ(a.State(), IBV_QPS_RTS);
  EXPECT_EQ(b.Wait(&a).wr_id, 1u);
  EXPECT_EQ(b.Text(0, 5), "later");
  EXPECT_EQ(a.Wait(&b).wr_id, 2u);
}

TEST_F(DrainTest, WhatHasBegunIsFinishedAndNothingElse) {
  const std::string text(1'000'000, 'x');
  a.Fill(0, text);
  ASSERT_EQ(b.Receive(1, 0, text.size()), 0);
  ASSERT_EQ(b.Receive(2, 0, 64), 0);
  ASSERT_EQ(a.Send(3, 0, text.size()), 0);  // More than the ring takes.
  ASSERT_EQ(a.Send(4, 0, 8), 0);
  ASSERT_EQ(Drain(), 0);
  EXPECT_TRUE(Draining());
  EXPECT_EQ(a.NextAsyncEvent(), -1);
  EXPECT_EQ(b.Wait(&a).byte_len, text.size());
  EXPECT_EQ(a.Wait(&b).wr_id, 3u);
  EXPECT_FALSE(Draining());
  EXPECT_EQ(DrainedEvent(), IBV_EVENT_SQ_DRAINED);
  EXPECT_TRUE(b.StaysQuiet(&a));
  ASSERT_EQ(Resume(), 0);
  EXPECT_EQ(b.Wait(&a).wr_id, 2u);
  EXPECT_EQ(a.NextAsyncEvent(), -1) << "once";
}

TEST_F(DrainTest, AReadUnderWayIsWaitedFor) {
  b.Fill(0, "data");
  ASSERT_EQ(a.Read(1, 100, 4, b.Address(0), b.mr->rkey), 0);
  ASSERT_EQ(Drain(), 0);
  EXPECT_TRUE(Draining());
  EXPECT_EQ(a.Wait(&b).wr_id, 1u);
  EXPECT_EQ(a.Text(100, 4), "data");
  EXPECT_EQ(DrainedEvent(), IBV_EVENT_SQ_DRAINED);
}

TEST_F(DrainTest, ASendThatFoundNoReceiveHasBegun) {
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  ASSERT_EQ(a.Send(2, 0, 8), 0);
  EXPECT_TRUE(a.StaysQuiet(&b));
  ASSERT_EQ(Drain(), 0);
  EXPECT_TRUE(a.StaysQuiet(&b));
  EXPECT_TRUE(Draining());
  ASSERT_EQ(b.Receive(3, 0, 64), 0);
  EXPECT_EQ(a.Wait(&b).wr_id, 1u);
  ASSERT_EQ(b.Receive(4, 0, 64), 0);
  while (Draining()) a.StaysQuiet(&b, 1);
  ASSERT_EQ(Resume(), 0);
  EXPECT_EQ(a.Wait(&b).wr_id, 2u);
}

TEST_F(DrainTest, TheOtherDirectionGoesOn) {
  ASSERT_EQ(Drain(), 0);
  ASSERT_EQ(a.Receive(1, 0, 64), 0);
  ASSERT_EQ(b.Send(2, 0, 8), 0);
  EXPECT_EQ(a.Wait(&b).wr_id, 1u);
  a.Fill(500, "read");
  ASSERT_EQ(b.Read(3, 0, 4, a.Address(500), a.mr->rkey), 0);
  EXPECT_EQ(b.Wait(&a).wr_id, 2u);
  EXPECT_EQ(b.Wait(&a).wr_id, 3u);
  EXPECT_EQ(b.Text(0, 4), "read");
}

TEST_F(DrainTest, AttributesChangeMeanwhile) {
  ASSERT_EQ(Drain(), 0);
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_SQD;
  attributes.rnr_retry = 2;
  attributes.timeout = 9;
  attributes.max_rd_atomic = 3;
  ASSERT_EQ(a.verbs.modify_qp(a.qp, &attributes,
                              IBV_QP_STATE | IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT |
                                  IBV_QP_MAX_QP_RD_ATOMIC),
            0);
  ASSERT_EQ(Resume(), 0);
  ibv_qp_init_attr init;
  ASSERT_EQ(a.verbs.query_qp(a.qp, &attributes, 0, &init), 0);
  EXPECT_EQ(attributes.rnr_retry, 2);
  EXPECT_EQ(attributes.timeout, 9);
  EXPECT_EQ(attributes.max_rd_atomic, 3);
}

TEST_F(DrainTest, ErrorsEndItAsEver) {
  ASSERT_EQ(Drain(), 0);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  ASSERT_EQ(a.ToError(), 0);
  EXPECT_EQ(a.Wait().status, IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(a.ToReset(), 0);
  ASSERT_EQ(b.ToReset(), 0);
  ConnectByHand(a, b);
  ASSERT_EQ(b.Receive(2, 0, 8), 0);
  ASSERT_EQ(a.Send(3, 0, 8), 0);
  EXPECT_EQ(a.Wait(&b).status, IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace verbena::soft
