// Which of two ends that sleep at their completion channels is woken, and when.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "transport/soft/test_end.h"

namespace verbena::soft {
namespace {

TestEndOptions Sleeper() {
  TestEndOptions options;
  options.with_channel = true;
  options.send_depth = options.receive_depth = 128;
  options.completions = 512;
  return options;
}

class SleepersTest : public testing::Test {
 protected:
  SleepersTest() { ConnectManually(a, b); }

  TestEnd a{Sleeper()};
  TestEnd b{Sleeper()};
};

// The program of `b` neither polls nor arms, so what is unhurried rings nobody.
TEST_F(SleepersTest, ARequestThatFindsTheRingFullNeedsNobodyToPoll) {
  constexpr size_t kBytes = 4096;
  constexpr int kMoreThanTheRing = 100;
  for (int i = 0; i < 128; ++i) ASSERT_EQ(b.Receive(i, 0, kBytes), 0);
  ASSERT_EQ(ibv_req_notify_cq(a.cq, 0), 0);
  for (int i = 0; i < kMoreThanTheRing; ++i) {
    ASSERT_EQ(a.Send(i, 0, kBytes, 0), 0);
  }
  ASSERT_EQ(a.Send(1000, 0, 8), 0);
  ASSERT_TRUE(a.ChannelIsReadable(true));
  a.TakeCompletionEvent();
  EXPECT_EQ(a.Outcome(1000), IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace verbena::soft
