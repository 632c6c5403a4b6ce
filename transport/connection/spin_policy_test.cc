#include "transport/connection/spin_policy.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"

namespace verbena::transport {
namespace {

constexpr absl::Duration kBudget = absl::Microseconds(50);
constexpr absl::Duration kLooks = absl::Microseconds(2);

// A thread whose waits take as long as it is told.
class SpinPolicyTest : public testing::Test {
 protected:
  // Waits until something comes after `length`; returns for how long it spun.
  absl::Duration WaitFor(absl::Duration length) {
    const absl::Time began = now_;
    while (wait_.Look(now_)) {
      if (now_ - began >= length) {
        wait_.Found();
        return now_ - began;
      }
      now_ += kLooks;
    }
    const absl::Duration spun = now_ - began;
    now_ = std::max(now_, began + length);
    wait_.Woke(now_);
    return spun;
  }

  void WaitTimes(int count, absl::Duration length) {
    for (int i = 0; i < count; ++i) WaitFor(length);
  }

  SpinPolicy policy_{kBudget};
  SpinPolicy::Wait wait_{&policy_};
  absl::Time now_ = absl::UnixEpoch();
};

TEST_F(SpinPolicyTest, SpinsThroughShortWaits) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(WaitFor(absl::Microseconds(20)), absl::Microseconds(20));
  }
}

TEST_F(SpinPolicyTest, SpinsForTheBudgetAtMost) {
  EXPECT_EQ(WaitFor(absl::Milliseconds(1)), kBudget);
}

TEST_F(SpinPolicyTest, SleepsAtOnceAfterSomeLongWaits) {
  WaitTimes(4, absl::Milliseconds(1));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(WaitFor(absl::Milliseconds(1)), absl::ZeroDuration());
  }
}

TEST_F(SpinPolicyTest, GoesOnWhileTwoWaitsOfThreeAreShort) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(WaitFor(absl::Milliseconds(1)), kBudget);
    WaitTimes(2, absl::Microseconds(20));
  }
}

TEST_F(SpinPolicyTest, BeginsAgainWhenWaitsHaveBecomeShort) {
  WaitTimes(4, absl::Milliseconds(1));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(WaitFor(absl::Microseconds(60)), absl::ZeroDuration());
  }
  EXPECT_EQ(WaitFor(absl::Microseconds(20)), absl::Microseconds(20));
}

// As where both sides share one processor: what is waited for comes soon, but
// only when the thread sleeps.
TEST_F(SpinPolicyTest, TriesLessAndLessOftenInVain) {
  int tried = 0;
  for (int i = 0; i < 1000; ++i) {
    absl::Time began = now_;
    while (wait_.Look(now_)) now_ += kLooks;
    tried += now_ > began ? 1 : 0;
    now_ += absl::Microseconds(10);
    wait_.Woke(now_);
  }
  EXPECT_GT(tried, 10);
  EXPECT_LT(tried, 40);
}

TEST_F(SpinPolicyTest, SleepsAtOnceWhenTheProcessorWasTakenAway) {
  ASSERT_TRUE(wait_.Look(now_));
  now_ += SpinPolicy::kTakenAway + kLooks;
  EXPECT_FALSE(wait_.Look(now_));
  wait_.Woke(now_ + absl::Milliseconds(1));
  EXPECT_FALSE(wait_.Look(now_));
}

TEST_F(SpinPolicyTest, WaitsLongerWhileDataIsOnItsWay) {
  const absl::Duration transfer = absl::Microseconds(80);
  WaitTimes(4, absl::Milliseconds(1));
  ASSERT_TRUE(wait_.Look(now_, transfer));
  now_ += absl::Microseconds(90);
  EXPECT_TRUE(wait_.Look(now_, transfer));
  now_ += absl::Microseconds(90);
  EXPECT_FALSE(wait_.Look(now_, transfer));
}

TEST_F(SpinPolicyTest, NeverSpinsWithoutABudget) {
  SpinPolicy none(absl::ZeroDuration());
  SpinPolicy::Wait wait(&none);
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(wait.Look(now_, absl::Milliseconds(1)));
    wait.Woke(now_);
  }
}

}  // namespace
}  // namespace verbena::transport
