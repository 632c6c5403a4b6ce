#include "rpc/internal/client/waiters.h"

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "transport/base/counter.h"

namespace verbena::internal {
namespace {

// Takes the role, which is free.
void Acquire(PollingRole& role) ABSL_EXCLUSIVE_LOCK_FUNCTION(role) {
  while (!role.TryAcquire()) ADD_FAILURE();
}

constexpr absl::Duration kLongSpin = absl::Hours(1);

TEST(WaitersTest, AThreadThatSpinsSeesItsEnd) {
  PollingRole role;
  base::Counter polls;
  Acquire(role);  // Somebody polls.
  Waiters waiters(role, polls, kLongSpin);
  Waiter waiter;
  std::thread thread([&] {
    // It may find in between that nobody polls.
    while (!waiters.WaitForTurn(&waiter)) {
    }
  });
  polls.Add();
  waiters.Finish(&waiter);
  thread.join();
  EXPECT_TRUE(waiter.finished());
  EXPECT_FALSE(waiters.any());
  role.Release();
}

// Where it would spin for an hour if it did not look whether anybody polls.
TEST(WaitersTest, AThreadSleepsWhileWhoeverHasTheRoleDoesNotRun) {
  PollingRole role;
  base::Counter polls;
  Acquire(role);
  Waiters waiters(role, polls, kLongSpin);
  Waiter waiter;
  EXPECT_FALSE(waiters.WaitForTurn(&waiter));
  EXPECT_TRUE(waiters.any());
  waiters.Leave(&waiter);
  role.Release();
}

TEST(WaitersTest, AThreadThatSpinsSeesThatTheRoleIsFree) {
  PollingRole role;
  base::Counter polls;
  Waiters waiters(role, polls, kLongSpin);
  Waiter waiter;
  EXPECT_FALSE(waiters.WaitForTurn(&waiter));
  EXPECT_FALSE(waiters.any());
}

TEST(WaitersTest, AThreadIsListedBeforeItSleeps) {
  PollingRole role;
  base::Counter polls;
  Acquire(role);
  Waiters waiters(role, polls, absl::ZeroDuration());
  Waiter waiter;
  // It is to try the role once more, now that it can be woken.
  EXPECT_FALSE(waiters.WaitForTurn(&waiter));
  EXPECT_TRUE(waiters.any());
  std::thread thread([&] { EXPECT_TRUE(waiters.WaitForTurn(&waiter)); });
  waiters.Finish(&waiter);
  thread.join();
  EXPECT_FALSE(waiters.any());
  role.Release();
}

TEST(WaitersTest, OneThreadAtATimeIsWokenToTryTheRole) {
  PollingRole role;
  base::Counter polls;
  Acquire(role);
  Waiters waiters(role, polls, absl::ZeroDuration());
  Waiter first;
  Waiter second;
  EXPECT_FALSE(waiters.WaitForTurn(&first));
  EXPECT_FALSE(waiters.WaitForTurn(&second));
  waiters.WakeOne();
  EXPECT_FALSE(waiters.WaitForTurn(&first));  // Does not sleep: it was woken.
  waiters.WakeOne();
  waiters.WakeOne();
  EXPECT_FALSE(waiters.WaitForTurn(&first));
  EXPECT_FALSE(waiters.WaitForTurn(&second));
  waiters.Finish(&first);
  waiters.Finish(&second);
  EXPECT_FALSE(waiters.any());
  role.Release();
}

TEST(WaitersTest, AThreadThatPollsWaitsNoMore) {
  PollingRole role;
  base::Counter polls;
  Acquire(role);
  Waiters waiters(role, polls, absl::ZeroDuration());
  Waiter waiter;
  EXPECT_FALSE(waiters.WaitForTurn(&waiter));
  EXPECT_TRUE(waiters.any());
  waiters.Leave(&waiter);
  EXPECT_FALSE(waiters.any());
  Waiters::FinishOwn(&waiter);
  EXPECT_TRUE(waiter.finished());
  role.Release();
}

}  // namespace
}  // namespace verbena::internal
