#include "transport/soft/cm/cm_state.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace verbena::soft {
namespace {

const std::vector<CmState> kAll = {
    CmState::kIdle,          CmState::kBound,
    CmState::kListening,     CmState::kAddressResolved,
    CmState::kRouteResolved, CmState::kConnecting,
    CmState::kResponded,     CmState::kRequested,
    CmState::kAccepting,     CmState::kEstablished,
    CmState::kClosed};

TEST(CmStateTest, LeadsFromIdleToEstablishedOnTheActiveSide) {
  EXPECT_TRUE(CanTransition(CmState::kIdle, CmState::kBound));
  EXPECT_TRUE(CanTransition(CmState::kBound, CmState::kAddressResolved));
  EXPECT_TRUE(
      CanTransition(CmState::kAddressResolved, CmState::kRouteResolved));
  EXPECT_TRUE(CanTransition(CmState::kRouteResolved, CmState::kConnecting));
  EXPECT_TRUE(CanTransition(CmState::kConnecting, CmState::kEstablished));
}

TEST(CmStateTest, LeadsToEstablishedByWayOfTheUserToo) {
  EXPECT_TRUE(CanTransition(CmState::kConnecting, CmState::kResponded));
  EXPECT_TRUE(CanTransition(CmState::kResponded, CmState::kEstablished));
}

TEST(CmStateTest, LeadsFromRequestedToEstablishedOnThePassiveSide) {
  EXPECT_TRUE(CanTransition(CmState::kRequested, CmState::kAccepting));
  EXPECT_TRUE(CanTransition(CmState::kAccepting, CmState::kEstablished));
}

TEST(CmStateTest, ClosesOnlyWhatWasAConnection) {
  for (const CmState from : kAll) {
    EXPECT_EQ(CanTransition(from, CmState::kClosed),
              from == CmState::kConnecting || from == CmState::kResponded ||
                  from == CmState::kRequested || from == CmState::kAccepting ||
                  from == CmState::kEstablished)
        << CmStateName(from);
  }
}

TEST(CmStateTest, NeverLeavesClosedOrListening) {
  for (const CmState to : kAll) {
    EXPECT_FALSE(CanTransition(CmState::kClosed, to)) << CmStateName(to);
    EXPECT_FALSE(CanTransition(CmState::kListening, to)) << CmStateName(to);
  }
}

TEST(CmStateTest, NamesEveryState) {
  for (const CmState state : kAll) {
    EXPECT_NE(std::string(CmStateName(state)), "unknown state");
  }
}

}  // namespace
}  // namespace verbena::soft
