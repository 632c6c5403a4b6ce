// The state SQD: a send queue that stops where one message ends.

#include <gtest/gtest.h>

#include <string>

#include "tests/conformance/differences.h"
#include "tests/conformance/end.h"

namespace verbena::conformance {
namespace {

int Drain(End& end) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_SQD;
  attributes.en_sqd_async_notify = 1;
  return Verbs().modify_qp(end.qp, &attributes,
                           IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
}

int Resume(End& end) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  return Verbs().modify_qp(end.qp, &attributes, IBV_QP_STATE);
}

bool Draining(const End& end) {
  ibv_qp_attr attributes = {};
  ibv_qp_init_attr init = {};
  EXPECT_EQ(Verbs().query_qp(end.qp, &attributes, IBV_QP_STATE, &init), 0);
  return attributes.sq_draining != 0;
}

class DrainedSendQueueTest : public testing::Test {
 protected:
  DrainedSendQueueTest() { Connect(a, b); }

  void ExpectDrained() {
    EXPECT_EQ(a.NextAsyncEvent(), IBV_EVENT_SQ_DRAINED);
    EXPECT_FALSE(Draining(a));
  }

  End a;
  End b;
};

TEST_F(DrainedSendQueueTest, AnIdleQueueIsDrained) {
  ASSERT_EQ(Drain(a), 0);
  ExpectDrained();
  EXPECT_EQ(a.State(), IBV_QPS_SQD);
}

TEST_F(DrainedSendQueueTest, TheEventComesOnlyIfItIsWanted) {
  ASSERT_EQ(a.To(IBV_QPS_SQD), 0);
  EXPECT_EQ(a.HasNoAsyncEvent(),
            Keeps(Promise::kADrainedQueueIsAnEventIfThatIsWanted));
}

TEST_F(DrainedSendQueueTest, WhatIsPostedWaitsUntilItGoesOn) {
  ASSERT_EQ(Drain(a), 0);
  ASSERT_EQ(b.Receive(1, 0, 64), 0);
  a.Fill(0, "later");
  ASSERT_EQ(a.Send(2, 0, 5), 0);
  EXPECT_TRUE(a.StaysQuiet());
  EXPECT_TRUE(b.StaysQuiet());
  ASSERT_EQ(Resume(a), 0);
  EXPECT_EQ(a.State(), IBV_QPS_RTS);
  if (!Keeps(Promise::kADrainedQueueGoesOnByItself)) {
    EXPECT_TRUE(a.StaysQuiet());
    ASSERT_EQ(a.Write(4, 0, 0, 0, 0, 0), 0);
  }
  EXPECT_EQ(b.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Text(0, 5), "later");
  EXPECT_EQ(a.Outcome(2), IBV_WC_SUCCESS);
}

TEST_F(DrainedSendQueueTest, UnsignalledRequestsThatHaveEndedAreDrained) {
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(a.Write(i, 0, 8, b.Address(8 * i), b.mr->rkey, 0), 0);
  }
  ASSERT_EQ(Drain(a), 0);
  while (Draining(a)) b.RunProtocol();
  ExpectDrained();
  EXPECT_TRUE(a.StaysQuiet());
}

TEST_F(DrainedSendQueueTest, AMessageThatFoundNoReceiveHasBegun) {
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  EXPECT_TRUE(a.StaysQuiet());
  ASSERT_EQ(Drain(a), 0);
  const bool finishes = Keeps(Promise::kADrainedQueueFinishesWhatHasBegun);
  EXPECT_EQ(a.HasNoAsyncEvent(), finishes);
  ASSERT_EQ(b.Receive(3, 0, 64), 0);
  if (!finishes) {
    EXPECT_TRUE(a.StaysQuiet());
    ASSERT_EQ(Resume(a), 0);
    ASSERT_EQ(a.Write(4, 0, 0, 0, 0, 0), 0);
  }
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Outcome(3), IBV_WC_SUCCESS);
  if (finishes) ExpectDrained();
}

TEST_F(DrainedSendQueueTest, TheOtherDirectionGoesOn) {
  ASSERT_EQ(Drain(a), 0);
  ASSERT_EQ(a.Receive(1, 0, 64), 0);
  ASSERT_EQ(b.Send(2, 0, 8), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Outcome(2), IBV_WC_SUCCESS);
  a.Fill(500, "read");
  ASSERT_EQ(b.Read(3, 0, 4, a.Address(500), a.mr->rkey), 0);
  EXPECT_EQ(b.Outcome(3), IBV_WC_SUCCESS);
  EXPECT_EQ(b.Text(0, 4), "read");
}

TEST_F(DrainedSendQueueTest, AttributesChangeMeanwhile) {
  ASSERT_EQ(Drain(a), 0);
  ExpectDrained();
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_SQD;
  attributes.rnr_retry = 2;
  attributes.timeout = 9;
  attributes.max_rd_atomic = 2;
  ASSERT_EQ(Verbs().modify_qp(a.qp, &attributes,
                              IBV_QP_STATE | IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT |
                                  IBV_QP_MAX_QP_RD_ATOMIC),
            0);
  ASSERT_EQ(Resume(a), 0);
  ibv_qp_init_attr init = {};
  ASSERT_EQ(
      Verbs().query_qp(
          a.qp, &attributes,
          IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT | IBV_QP_MAX_QP_RD_ATOMIC, &init),
      0);
  EXPECT_EQ(attributes.rnr_retry, 2);
  EXPECT_EQ(attributes.timeout, 9);
  EXPECT_EQ(attributes.max_rd_atomic, 2);
}

TEST_F(DrainedSendQueueTest, AnErrorFlushesWhatWaits) {
  ASSERT_EQ(Drain(a), 0);
  ASSERT_EQ(a.Send(1, 0, 8), 0);
  ASSERT_EQ(a.To(IBV_QPS_ERR), 0);
  EXPECT_EQ(a.Outcome(1), IBV_WC_WR_FLUSH_ERR);
  for (End* end : {&a, &b}) ASSERT_EQ(end->To(IBV_QPS_RESET), 0);
  Connect(a, b);
  ASSERT_EQ(b.Receive(2, 0, 8), 0);
  ASSERT_EQ(a.Send(3, 0, 8), 0);
  EXPECT_EQ(a.Outcome(3), IBV_WC_SUCCESS)
      << "the next connection drains nothing";
}

TEST(DrainedDatagramsTest, TheyWaitUntilItGoesOn) {
  DatagramEnd a;
  DatagramEnd b;
  a.peer = &b;
  b.peer = &a;
  ASSERT_EQ(b.Receive(1, 0, 100), 0);
  ASSERT_EQ(Drain(a), 0);
  ASSERT_EQ(a.SendTo(b, 2, 0, 8), 0);
  EXPECT_TRUE(b.StaysQuiet());
  ASSERT_EQ(Resume(a), 0);
  if (!Keeps(Promise::kADrainedQueueGoesOnByItself)) {
    EXPECT_TRUE(b.StaysQuiet());
    ASSERT_EQ(a.SendTo(b, 3, 0, 8), 0);
  }
  EXPECT_EQ(b.Outcome(1), IBV_WC_SUCCESS);
  EXPECT_EQ(a.Outcome(2), IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace verbena::conformance
