#include <gtest/gtest.h>

#include "transport/soft/connected/queue_pair_state.h"

namespace verbena::soft {
namespace {

constexpr int kInit = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
constexpr int kEveryBit = (1 << 21) - 1;

// The transition is legal with exactly `required` and any of `optional`.
void ExpectMasks(ibv_qp_state from, ibv_qp_state to, int required,
                 int optional) {
  for (int bit = IBV_QP_CUR_STATE; bit <= kEveryBit; bit <<= 1) {
    const bool allowed = ((required | optional) & bit) != 0;
    EXPECT_EQ(IsLegalTransition(IBV_QPT_UD, from, to, required | bit), allowed)
        << from << " to " << to << ", bit " << bit;
    if ((required & bit) != 0) {
      EXPECT_FALSE(IsLegalTransition(IBV_QPT_UD, from, to, required & ~bit))
          << from << " to " << to << ", without bit " << bit;
    }
  }
}

TEST(DatagramQueuePairStateTest, EachStepHasItsAttributesAndNoOthers) {
  ExpectMasks(IBV_QPS_RESET, IBV_QPS_INIT, kInit, 0);
  ExpectMasks(IBV_QPS_INIT, IBV_QPS_INIT, 0, kInit);
  ExpectMasks(IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY);
  const int optional = IBV_QP_CUR_STATE | IBV_QP_QKEY;
  ExpectMasks(IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, optional);
  ExpectMasks(IBV_QPS_RTS, IBV_QPS_RTS, 0, optional);
  ExpectMasks(IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY);
  ExpectMasks(IBV_QPS_SQD, IBV_QPS_RTS, 0, optional);
  ExpectMasks(IBV_QPS_SQE, IBV_QPS_RTS, 0, optional);
}

TEST(DatagramQueuePairStateTest, NoStepIsSkipped) {
  EXPECT_FALSE(IsLegalTransition(IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_RTR, 0));
  EXPECT_FALSE(
      IsLegalTransition(IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_RTS, IBV_QP_SQ_PSN));
  EXPECT_FALSE(IsLegalTransition(IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_RTR, 0));
  EXPECT_FALSE(IsLegalTransition(IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_SQE, 0));
  EXPECT_FALSE(IsLegalTransition(IBV_QPT_UD, IBV_QPS_ERR, IBV_QPS_INIT, kInit));
}

TEST(DatagramQueuePairStateTest, EveryStateMayFailAndStartAgain) {
  for (int from = IBV_QPS_RESET; from <= IBV_QPS_ERR; ++from) {
    const auto state = static_cast<ibv_qp_state>(from);
    for (const ibv_qp_state to : {IBV_QPS_RESET, IBV_QPS_ERR}) {
      EXPECT_TRUE(IsLegalTransition(IBV_QPT_UD, state, to, IBV_QP_STATE));
      EXPECT_FALSE(IsLegalTransition(IBV_QPT_UD, state, to, IBV_QP_QKEY));
    }
  }
}

}  // namespace
}  // namespace verbena::soft
