#include "transport/polling/spin_policy.h"

#include <gtest/gtest.h>

#include <algorithm>

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

// A side of a conversation, in virtual time: a wake-up exceeds a budget.
class Peer {
 public:
  explicit Peer(absl::Time now) : now_(now) {}

  // Waits from the end of the last wait for what comes at `time`; returns when
  // it has noticed.
  absl::Time WaitUntil(absl::Time time) {
    while (wait_.Look(now_)) {
      if (now_ >= time) {
        wait_.Found();
        return now_;
      }
      now_ += kLooks;
    }
    now_ = std::max(now_, time) + absl::Microseconds(120);
    wait_.Woke(now_);
    return now_;
  }

  void LearnToSleep() {
    for (int i = 0; i < 4; ++i) WaitUntil(now_ + absl::Milliseconds(1));
  }

 private:
  SpinPolicy policy_{kBudget};
  SpinPolicy::Wait wait_{&policy_};
  absl::Time now_;
};

TEST(SpinPolicyPeersTest, FindOutThatEachSleepsOnlyBecauseTheOtherDoes) {
  Peer client(absl::UnixEpoch());
  Peer server(absl::UnixEpoch());
  client.LearnToSleep();
  server.LearnToSleep();
  absl::Time now = absl::UnixEpoch() + absl::Milliseconds(10);
  absl::Duration last;
  for (int i = 0; i < 50; ++i) {
    const absl::Time sent = now;
    now = client.WaitUntil(server.WaitUntil(now));
    last = now - sent;
  }
  EXPECT_LT(last, kBudget);
}

// As where calls come now and then: what a trial costs is bounded although each
// of its waits ends within the trial's patience.
TEST_F(SpinPolicyTest, SpinsRarelyForWhatComesAfterTheBudget) {
  absl::Duration spun;
  for (int i = 0; i < 10000; ++i) spun += WaitFor(2 * kBudget);
  EXPECT_LT(spun, 10000 * 2 * kBudget / 20);
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
  EXPECT_GE(tried, 5);
  EXPECT_LE(tried, 15);
}

TEST_F(SpinPolicyTest, SleepsAtOnceWhenTheProcessorIsTakenAwayAgainAndAgain) {
  ASSERT_TRUE(wait_.Look(now_));
  now_ += SpinPolicy::kTakenAway + kLooks;
  ASSERT_TRUE(wait_.Look(now_));
  now_ += SpinPolicy::kTakenAway + kLooks;
  EXPECT_FALSE(wait_.Look(now_));
  wait_.Woke(now_ + absl::Milliseconds(1));
  EXPECT_FALSE(wait_.Look(now_));
}

TEST_F(SpinPolicyTest, SpinsOnWhenTheProcessorIsTakenAwayNowAndThen) {
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(wait_.Look(now_));
    now_ += absl::Milliseconds(1);
    ASSERT_TRUE(wait_.Look(now_));
    now_ += kLooks;
    wait_.Found();
    now_ += SpinPolicy::kTakenAgain;
  }
}

// As where calls follow one another, and the peer is interrupted now and then.
TEST_F(SpinPolicyTest, SpinsOnWhereAlmostAllWaitsEndBeforeALook) {
  for (int i = 0; i < 100; ++i) {
    for (uint32_t k = 0; k < SpinPolicy::kQuickWaits; ++k) wait_.Found();
    EXPECT_EQ(WaitFor(absl::Milliseconds(1)), kBudget);
  }
}

// As where a message comes once a millisecond.
TEST_F(SpinPolicyTest, OneQuickWaitMakesUpForNoLongOne) {
  for (int i = 0; i < 4; ++i) {
    wait_.Found();
    WaitFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(WaitFor(absl::Milliseconds(1)), absl::ZeroDuration());
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
