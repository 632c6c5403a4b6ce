#include "transport/soft/queues/queue_pair_state.h"

#include <gtest/gtest.h>

namespace verbena::soft {
namespace {

constexpr int kInit = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kRtr = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                     IBV_QP_MIN_RNR_TIMER;
constexpr int kRts = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
constexpr int kEveryBit = (1 << 21) - 1;

// The transition is legal with exactly the attributes `required` and any of
// `optional`.
void ExpectMasks(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to,
                 int required, int optional = 0) {
  for (int bit = IBV_QP_CUR_STATE; bit <= kEveryBit; bit <<= 1) {
    const bool allowed = ((required | optional) & bit) != 0;
    EXPECT_EQ(IsLegalTransition(type, from, to, required | bit), allowed)
        << from << " to " << to << ", bit " << bit;
    if ((required & bit) != 0) {
      EXPECT_FALSE(IsLegalTransition(type, from, to, required & ~bit))
          << from << " to " << to << ", without bit " << bit;
    }
  }
}

TEST(QueuePairStateTest, EachStepRequiresItsAttributesAndTakesNoOthers) {
  ExpectMasks(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, kInit);
  ExpectMasks(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, kRtr,
              IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX);
  ExpectMasks(IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, kRts,
              IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS |
                  IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE);
}

TEST(QueuePairStateTest, AnUnreliableConnectionHasFewerAttributes) {
  constexpr int kUnreliableRtr =
      IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  ExpectMasks(IBV_QPT_UC, IBV_QPS_RESET, IBV_QPS_INIT, kInit);
  ExpectMasks(IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_RTR, kUnreliableRtr,
              IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX);
  ExpectMasks(IBV_QPT_UC, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN,
              IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS |
                  IBV_QP_PATH_MIG_STATE);
  ExpectMasks(IBV_QPT_UC, IBV_QPS_SQD, IBV_QPS_SQD, 0,
              IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS |
                  IBV_QP_PKEY_INDEX | IBV_QP_PATH_MIG_STATE);
}

TEST(QueuePairStateTest, ADrainedQueuePairTakesWhatThePathNeeds) {
  ExpectMasks(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_SQD, 0,
              IBV_QP_EN_SQD_ASYNC_NOTIFY);
  ExpectMasks(IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_SQD, 0,
              IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ALT_PATH |
                  IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
                  IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE);
  ExpectMasks(IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_RTS, 0,
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
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
    for (int from = IBV_QPS_RESET; from <= IBV_QPS_ERR; ++from) {
      const auto state = static_cast<ibv_qp_state>(from);
      for (const ibv_qp_state to : {IBV_QPS_RESET, IBV_QPS_ERR}) {
        EXPECT_TRUE(IsLegalTransition(type, state, to, IBV_QP_STATE));
        EXPECT_FALSE(
            IsLegalTransition(type, state, to, IBV_QP_STATE | IBV_QP_PORT));
        EXPECT_FALSE(IsLegalTransition(type, state, to, IBV_QP_QKEY));
      }
    }
  }
}

TEST(QueuePairStateTest, TheErrorOfASendQueueIsNoStateToGoTo) {
  EXPECT_FALSE(
      IsLegalTransition(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_SQE, IBV_QP_STATE));
}

// Queue pairs of type UD.

constexpr int kDatagramInit = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;

TEST(DatagramQueuePairStateTest, EachStepHasItsAttributesAndNoOthers) {
  ExpectMasks(IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT, kDatagramInit);
  ExpectMasks(IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_INIT, 0, kDatagramInit);
  ExpectMasks(IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_RTR, 0,
              IBV_QP_PKEY_INDEX | IBV_QP_QKEY);
  const int optional = IBV_QP_CUR_STATE | IBV_QP_QKEY;
  ExpectMasks(IBV_QPT_UD, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, optional);
  ExpectMasks(IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_RTS, 0, optional);
  ExpectMasks(IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_SQD, 0,
              IBV_QP_EN_SQD_ASYNC_NOTIFY);
  ExpectMasks(IBV_QPT_UD, IBV_QPS_SQD, IBV_QPS_RTS, 0, optional);
  ExpectMasks(IBV_QPT_UD, IBV_QPS_SQE, IBV_QPS_RTS, 0, optional);
}

TEST(DatagramQueuePairStateTest, NoStepIsSkipped) {
  EXPECT_FALSE(IsLegalTransition(IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_RTR, 0));
  EXPECT_FALSE(
      IsLegalTransition(IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_RTS, IBV_QP_SQ_PSN));
  EXPECT_FALSE(IsLegalTransition(IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_RTR, 0));
  EXPECT_FALSE(IsLegalTransition(IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_SQE, 0));
  EXPECT_FALSE(
      IsLegalTransition(IBV_QPT_UD, IBV_QPS_ERR, IBV_QPS_INIT, kDatagramInit));
}

}  // namespace
}  // namespace verbena::soft
