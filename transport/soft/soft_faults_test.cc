// Tests of soft_faults.h on a manual clock. A minute stands for "for ever".

#include "transport/soft/soft_faults.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

#include "transport/soft/simulation.h"
#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

// 4.096 us * 2^15 = 134 ms, four times.
constexpr uint8_t kTimeout = 15;
constexpr nanoseconds kRetries(4 * (int64_t{4096} << kTimeout));

class SoftFaultsTest : public testing::Test {
 protected:
  static TestEndOptions Options() {
    TestEndOptions options;
    options.timeout = kTimeout;
    options.retry_count = 3;
    options.rnr_retry = 2;
    options.min_rnr_timer = 31;  // 491.52 ms.
    return options;
  }

  SoftFaultsTest() { ConnectManually(a_, b_); }

  // The status of the next completion at `end`; -1 if none comes in that time.
  int Await(TestEnd& end, nanoseconds longest = seconds(10)) {
    const Simulation::TimePoint start = simulation_.Now();
    ibv_wc completion = {};
    TestEnd& other = &end == &a_ ? b_ : a_;
    const bool came = simulation_.RunUntil(
        [&] {
          other.RunProtocol();
          return end.PollOnce(completion);
        },
        longest);
    waited_ = simulation_.Now() - start;
    return came ? completion.status : -1;
  }

  // Sends a message from `from` to `to`, which must arrive.
  void ExpectTalk(TestEnd& from, TestEnd& to) {
    ASSERT_EQ(to.Receive(1, 0, 64), 0);
    ASSERT_EQ(from.Send(2, 0, 64), 0);
    EXPECT_EQ(Await(to), IBV_WC_SUCCESS);
    EXPECT_EQ(Await(from), IBV_WC_SUCCESS);
  }

  Simulation& simulation_ = Simulation::Begin();
  TestEnd a_{Options()};
  TestEnd b_{Options()};
  nanoseconds waited_ = {};
};

TEST_F(SoftFaultsTest, AStalledReceiverMakesItsPeerWaitAndLosesNothing) {
  ExpectTalk(a_, b_);
  ASSERT_EQ(b_.Receive(1, 0, 64), 0);
  StallLink(b_.qp);
  ASSERT_EQ(a_.Send(2, 0, 64), 0);
  EXPECT_EQ(Await(a_, minutes(1)), -1);
  EXPECT_EQ(Await(b_, minutes(1)), -1);
  ReleaseLink(b_.qp);
  EXPECT_EQ(Await(b_), IBV_WC_SUCCESS);
  EXPECT_EQ(Await(a_), IBV_WC_SUCCESS);
  ExpectTalk(b_, a_);
}

TEST_F(SoftFaultsTest, AStalledSenderWaitsToo) {
  ASSERT_EQ(b_.Receive(1, 0, 64), 0);
  StallLink(a_.qp);
  ASSERT_EQ(a_.Send(2, 0, 64), 0);
  EXPECT_EQ(Await(b_, minutes(1)), -1);
  EXPECT_EQ(Await(a_, minutes(1)), -1);
  ReleaseLink(a_.qp);
  EXPECT_EQ(Await(b_), IBV_WC_SUCCESS);
  EXPECT_EQ(Await(a_), IBV_WC_SUCCESS);
}

TEST_F(SoftFaultsTest, ACutLinkEndsBothSidesRequestsWhenTheirRetriesAre) {
  ExpectTalk(a_, b_);
  ASSERT_EQ(a_.Receive(3, 0, 64), 0);
  ASSERT_EQ(b_.Receive(3, 0, 64), 0);
  CutLink(b_.qp);
  ASSERT_EQ(a_.Send(4, 0, 64), 0);
  ASSERT_EQ(b_.Send(4, 0, 64), 0);
  EXPECT_EQ(Await(a_), IBV_WC_RETRY_EXC_ERR);
  EXPECT_GE(waited_, kRetries);
  EXPECT_LT(waited_, kRetries + milliseconds(2));
  EXPECT_EQ(Await(b_), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(a_.State(), IBV_QPS_ERR);
  EXPECT_EQ(b_.State(), IBV_QPS_ERR);
  ReleaseLink(b_.qp);
  EXPECT_EQ(b_.State(), IBV_QPS_ERR);
}

TEST_F(SoftFaultsTest, WhatWasSentBeforeTheCutIsGivenUpToo) {
  ExpectTalk(a_, b_);
  StallLink(b_.qp);
  ASSERT_EQ(a_.Send(4, 0, 64), 0);
  EXPECT_EQ(Await(a_, minutes(1)), -1);
  CutLink(b_.qp);
  EXPECT_EQ(Await(a_), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(SoftFaultsTest, ACableThatIsPutBackInTimeHasLostNothing) {
  ASSERT_EQ(b_.Receive(1, 0, 64), 0);
  CutLink(b_.qp);
  ASSERT_EQ(a_.Send(2, 0, 64), 0);
  EXPECT_EQ(Await(a_, kRetries - milliseconds(10)), -1);
  ReleaseLink(b_.qp);
  EXPECT_EQ(Await(b_), IBV_WC_SUCCESS);
  EXPECT_EQ(Await(a_), IBV_WC_SUCCESS);
  simulation_.RunFor(minutes(1));
  ExpectTalk(a_, b_);
}

TEST_F(SoftFaultsTest, ASlowLinkMovesInSteps) {
  SlowLink(b_.qp, [] { return milliseconds(100); });
  ASSERT_EQ(b_.Receive(1, 0, 64), 0);
  simulation_.RunFor(microseconds(100));  // The link makes its first step.
  ASSERT_EQ(a_.Send(2, 0, 64), 0);
  EXPECT_EQ(Await(b_), IBV_WC_SUCCESS);
  EXPECT_GT(waited_, milliseconds(99));
  EXPECT_LE(waited_, milliseconds(101));
  EXPECT_EQ(Await(a_), IBV_WC_SUCCESS);
  ReleaseLink(b_.qp);
  ExpectTalk(a_, b_);
}

TEST_F(SoftFaultsTest, ALargeTransferGetsThroughASlowLink) {
  SlowLink(a_.qp, [] { return microseconds(50); });
  SlowLink(b_.qp, [] { return microseconds(70); });
  b_.Fill(100, "far away");
  ASSERT_EQ(a_.Read(1, 0, 60000, b_.Address(0), b_.mr->rkey), 0);
  EXPECT_EQ(Await(a_), IBV_WC_SUCCESS);
  EXPECT_EQ(a_.Text(100, 8), "far away");
}

TEST_F(SoftFaultsTest, AHoldMayComeBeforeTheLink) {
  TestEnd c(Options());
  TestEnd d(Options());
  StallLink(c.qp);
  ConnectManually(c, d);
  ASSERT_EQ(c.Receive(1, 0, 64), 0);
  ASSERT_EQ(d.Send(2, 0, 64), 0);
  simulation_.RunFor(minutes(1));
  ibv_wc completion = {};
  EXPECT_FALSE(d.PollOnce(completion));
  ReleaseLink(c.qp);
  simulation_.RunFor(milliseconds(1));
  EXPECT_TRUE(d.PollOnce(completion));
  EXPECT_TRUE(c.PollOnce(completion));
}

TEST_F(SoftFaultsTest, AHeldQueuePairMayBeResetAndDestroyed) {
  StallLink(a_.qp);
  ASSERT_EQ(a_.Send(2, 0, 64), 0);
  EXPECT_EQ(a_.To(IBV_QPS_RESET), 0);
  TestEnd c(Options());
  TestEnd d(Options());
  ConnectManually(c, d);
  CutLink(c.qp);
  ASSERT_EQ(d.Send(2, 0, 64), 0);
}

TEST_F(SoftFaultsTest, AllLinksOfTheProcessAreHeldAtOnce) {
  ASSERT_EQ(b_.Receive(1, 0, 64), 0);
  StallAllLinks();
  ASSERT_EQ(a_.Send(2, 0, 64), 0);
  EXPECT_EQ(Await(a_, minutes(1)), -1);
  ReleaseAllLinks();
  EXPECT_EQ(Await(a_), IBV_WC_SUCCESS);
  CutAllLinks();
  ASSERT_EQ(a_.Send(2, 0, 64), 0);
  EXPECT_EQ(Await(a_), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(SoftFaultsTest, APortThatIsDownIsACableThatIsCut) {
  ASSERT_EQ(b_.Receive(1, 0, 64), 0);
  TakePortDown(1);
  ASSERT_EQ(a_.Send(2, 0, 64), 0);
  EXPECT_EQ(Await(a_, kRetries / 2), -1);
  BringPortUp(1);
  EXPECT_EQ(Await(b_), IBV_WC_SUCCESS);
  EXPECT_EQ(Await(a_), IBV_WC_SUCCESS);
  TakePortDown(1);
  ASSERT_EQ(a_.Send(2, 0, 64), 0);
  EXPECT_EQ(Await(a_), IBV_WC_RETRY_EXC_ERR);
  BringPortUp(1);
}

TEST_F(SoftFaultsTest, AHeldLinkSurvivesItsPort) {
  ASSERT_EQ(b_.Receive(1, 0, 64), 0);
  StallLink(b_.qp);
  TakePortDown(1);
  BringPortUp(1);
  ASSERT_EQ(a_.Send(2, 0, 64), 0);
  EXPECT_EQ(Await(a_, minutes(1)), -1);
  ReleaseLink(b_.qp);
  EXPECT_EQ(Await(b_), IBV_WC_SUCCESS);
  EXPECT_EQ(Await(a_), IBV_WC_SUCCESS);
}

TEST_F(SoftFaultsTest, AReceiverIsNotReadyAsOftenAsTheTestSays) {
  ASSERT_EQ(b_.Receive(1, 0, 64), 0);
  ForceReceiverNotReady(b_.qp, 2);
  ASSERT_EQ(a_.Send(2, 0, 64), 0);
  EXPECT_EQ(Await(b_), IBV_WC_SUCCESS);
  EXPECT_GE(waited_, milliseconds(2 * 491));
  EXPECT_EQ(Await(a_), IBV_WC_SUCCESS);
}

TEST_F(SoftFaultsTest, AReceiverThatIsNeverReadyEndsTheSender) {
  ASSERT_EQ(b_.Receive(1, 0, 64), 0);
  ForceReceiverNotReady(b_.qp, kUntilReleased);
  ASSERT_EQ(a_.Send(2, 0, 64), 0);
  EXPECT_EQ(Await(a_), IBV_WC_RNR_RETRY_EXC_ERR);
  // The receive is still there, and comes back when it is flushed.
  EXPECT_EQ(Await(b_, seconds(1)), -1);
  EXPECT_EQ(b_.To(IBV_QPS_ERR), 0);
  EXPECT_EQ(Await(b_), IBV_WC_WR_FLUSH_ERR);
}

TEST_F(SoftFaultsTest, AReceiverIsReadyAgainWhenItIsReleased) {
  ASSERT_EQ(b_.Receive(1, 0, 64), 0);
  ForceReceiverNotReady(b_.qp, kUntilReleased);
  ASSERT_EQ(a_.Send(2, 0, 64), 0);
  EXPECT_EQ(Await(b_, milliseconds(600)), -1);
  ReleaseReceiver(b_.qp);
  EXPECT_EQ(Await(b_), IBV_WC_SUCCESS);
}

TEST_F(SoftFaultsTest, AnExhaustedQueueTakesItsQueuePairsWithIt) {
  ExhaustQueue(b_.cq);
  EXPECT_EQ(b_.NextAsyncEvent(0), IBV_EVENT_CQ_ERR);
  simulation_.RunFor(milliseconds(10));
  EXPECT_EQ(b_.State(), IBV_QPS_ERR);
  ibv_wc completion = {};
  EXPECT_LT(ibv_poll_cq(b_.cq, 1, &completion), 0);
  ASSERT_EQ(a_.Send(2, 0, 64), 0);
  EXPECT_EQ(Await(a_), IBV_WC_RETRY_EXC_ERR);
}

}  // namespace
}  // namespace verbena::soft
