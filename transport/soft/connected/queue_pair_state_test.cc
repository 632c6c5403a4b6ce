#include "transport/soft/connected/queue_pair_state.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

constexpr int kInit = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kRtr = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                     IBV_QP_MIN_RNR_TIMER;
constexpr int kRts = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
constexpr int kEveryBit = (1 << 21) - 1;

// For each bit of `mask`: without it the transition is refused.
void ExpectAllRequired(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to,
                       int mask) {
  ASSERT_TRUE(IsLegalTransition(type, from, to, mask | IBV_QP_STATE));
  for (int bit = 1; bit <= mask; bit <<= 1) {
    if ((mask & bit) != 0) {
      EXPECT_FALSE(IsLegalTransition(type, from, to, mask & ~bit))
          << "bit " << bit;
    }
  }
}

// For each bit that is in neither mask: with it the transition is refused.
void ExpectNoOther(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to,
                   int mask, int optional) {
  for (int bit = IBV_QP_CUR_STATE; bit <= kEveryBit; bit <<= 1) {
    if (((mask | optional) & bit) == 0) {
      EXPECT_FALSE(IsLegalTransition(type, from, to, mask | bit))
          << "bit " << bit;
    } else {
      EXPECT_TRUE(IsLegalTransition(type, from, to, mask | bit))
          << "bit " << bit;
    }
  }
}

TEST(QueuePairStateTest, EachStepRequiresItsAttributesAndTakesNoOthers) {
  ExpectAllRequired(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, kInit);
  ExpectNoOther(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, kInit, 0);
  ExpectAllRequired(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, kRtr);
  ExpectNoOther(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, kRtr,
                IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX);
  ExpectAllRequired(IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, kRts);
  ExpectNoOther(IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, kRts,
                IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS |
                    IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE);
}

TEST(QueuePairStateTest, AnUnreliableConnectionHasFewerAttributes) {
  constexpr int kUnreliableRtr =
      IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  ExpectAllRequired(IBV_QPT_UC, IBV_QPS_RESET, IBV_QPS_INIT, kInit);
  ExpectAllRequired(IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_RTR, kUnreliableRtr);
  ExpectNoOther(IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_RTR, kUnreliableRtr,
                IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX);
  ExpectNoOther(IBV_QPT_UC, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN,
                IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS |
                    IBV_QP_PATH_MIG_STATE);
  ExpectNoOther(IBV_QPT_UC, IBV_QPS_SQD, IBV_QPS_SQD, 0,
                IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS |
                    IBV_QP_PKEY_INDEX | IBV_QP_PATH_MIG_STATE);
}

TEST(QueuePairStateTest, ADrainedQueuePairTakesWhatThePathNeeds) {
  ExpectNoOther(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_SQD, 0,
                IBV_QP_EN_SQD_ASYNC_NOTIFY);
  ExpectNoOther(IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_SQD, 0,
                IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ALT_PATH |
                    IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
                    IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE);
  ExpectNoOther(IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_RTS, 0,
                IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS |
                    IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE);
}

TEST(QueuePairStateTest, NoStepIsSkippedOrTakenBack) {
  EXPECT_FALSE(IsLegalTransition(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_RTR, kRtr));
  EXPECT_FALSE(IsLegalTransition(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_RTS, kRts));
  EXPECT_FALSE(IsLegalTransition(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTS, kRts));
  EXPECT_FALSE(IsLegalTransition(IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_INIT, kInit));
  EXPECT_FALSE(IsLegalTransition(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_INIT, kInit));
  EXPECT_FALSE(IsLegalTransition(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RTR, kRtr));
  EXPECT_FALSE(IsLegalTransition(IBV_QPT_RC, IBV_QPS_ERR, IBV_QPS_INIT, kInit));
  EXPECT_FALSE(IsLegalTransition(IBV_QPT_RC, IBV_QPS_ERR, IBV_QPS_RTS, kRts));
}

TEST(QueuePairStateTest, ErrorAndResetAreReachedFromEverywhereWithNothingElse) {
  constexpr ibv_qp_type type = IBV_QPT_RC;
  for (ibv_qp_state from : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
                            IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR}) {
    for (ibv_qp_state to : {IBV_QPS_RESET, IBV_QPS_ERR}) {
      EXPECT_TRUE(IsLegalTransition(type, from, to, IBV_QP_STATE));
      EXPECT_FALSE(
          IsLegalTransition(type, from, to, IBV_QP_STATE | IBV_QP_PORT));
    }
  }
}

TEST(QueuePairStateTest, TheErrorOfASendQueueIsNoStateToGoTo) {
  EXPECT_FALSE(
      IsLegalTransition(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_SQE, IBV_QP_STATE));
}

TEST(QueuePairStateTest, AQueuePairFollowsTheTable) {
  TestEnd end;
  EXPECT_EQ(end.ToReadyToReceive(5), EINVAL);
  EXPECT_EQ(end.ToReadyToSend(), EINVAL);
  EXPECT_EQ(end.ToInit(), 0);
  EXPECT_EQ(end.State(), IBV_QPS_INIT);
  EXPECT_EQ(end.ToReadyToSend(), EINVAL);
  EXPECT_EQ(end.ToReadyToReceive(5), 0);
  EXPECT_EQ(end.ToReadyToSend(), 0);
  EXPECT_EQ(end.State(), IBV_QPS_RTS);
  EXPECT_EQ(end.qp->state, IBV_QPS_RTS);
  EXPECT_EQ(end.ToInit(), EINVAL);
  EXPECT_EQ(end.ToError(), 0);
  EXPECT_EQ(end.ToReset(), 0);
  EXPECT_EQ(end.State(), IBV_QPS_RESET);
}

TEST(QueuePairStateTest, PostingFollowsTheState) {
  TestEnd end;
  EXPECT_EQ(end.Receive(1, 0, 8), EINVAL);  // RESET.
  EXPECT_EQ(end.Send(1, 0, 8), EINVAL);
  ASSERT_EQ(end.ToInit(), 0);
  EXPECT_EQ(end.Receive(1, 0, 8), 0);
  EXPECT_EQ(end.Send(1, 0, 8), EINVAL);
  ASSERT_EQ(end.ToReadyToReceive(5), 0);
  EXPECT_EQ(end.Receive(1, 0, 8), 0);
  EXPECT_EQ(end.Send(1, 0, 8), EINVAL);
  ASSERT_EQ(end.ToReadyToSend(), 0);
  EXPECT_EQ(end.Send(1, 0, 8), 0);
}

TEST(QueuePairStateTest, ValuesBeyondTheDeviceAreRefused) {
  TestEnd end;
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 3;
  EXPECT_EQ(end.verbs.modify_qp(end.qp, &attributes, IBV_QP_STATE | kInit),
            EINVAL);
  ASSERT_EQ(end.ToInit(), 0);
  EXPECT_EQ(end.ToReadyToReceive(1 << 24), EINVAL);
}

TEST(QueuePairStateTest, QueryTellsWhatWasSet) {
  TestEndOptions options;
  options.rnr_retry = 3;
  options.timeout = 9;
  options.reads_max = 5;
  options.reads_accepted = 6;
  TestEnd end(options);
  end.Connect(0x123456);
  ibv_qp_attr attributes;
  ibv_qp_init_attr init;
  ASSERT_EQ(end.verbs.query_qp(end.qp, &attributes, 0, &init), 0);
  EXPECT_EQ(attributes.dest_qp_num, 0x123456u);
  EXPECT_EQ(attributes.rnr_retry, 3);
  EXPECT_EQ(attributes.timeout, 9);
  EXPECT_EQ(attributes.max_rd_atomic, 5);
  EXPECT_EQ(attributes.max_dest_rd_atomic, 6);
  EXPECT_EQ(attributes.qp_access_flags, static_cast<unsigned>(options.access));
  EXPECT_EQ(init.cap.max_send_wr, options.send_depth);
  EXPECT_EQ(init.send_cq, end.cq);
}

}  // namespace
}  // namespace verbena::soft
