#include "rpc/internal/client/waiters.h"

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "transport/base/counter.h"

namespace verbena::internal {
namespace {

// Takes the ownership, which is free.
void Acquire(transport::Ownership& ownership)
    ABSL_EXCLUSIVE_LOCK_FUNCTION(ownership) {
  while (!ownership.TryAcquire()) ADD_FAILURE();
}

constexpr absl::Duration kLongSpin = absl::Hours(1);

TEST(WaitersTest, AThreadThatSpinsSeesItsEnd) {
  transport::Ownership ownership;
  base::Counter polls;
  Acquire(ownership);  // Somebody polls.
  Waiters waiters(ownership, polls, kLongSpin);
  Waiter waiter;
  std::thread thread([&] {
    // WaitForTurn() may find in between that nobody polls.
    while (!waiters.WaitForTurn(&waiter)) {
    }
  });
  polls.Add();
  waiters.Finish(&waiter);
  thread.join();
  EXPECT_TRUE(waiter.finished());
  EXPECT_FALSE(waiters.any());
  ownership.Release();
}

// Where it would spin for an hour if it did not look whether anybody polls.
TEST(WaitersTest, AThreadSleepsWhileWhoeverHasTheRoleDoesNotRun) {
  transport::Ownership ownership;
  base::Counter polls;
  Acquire(ownership);
  Waiters waiters(ownership, polls, kLongSpin);
  Waiter waiter;
  EXPECT_FALSE(waiters.WaitForTurn(&waiter));
  EXPECT_TRUE(waiters.any());
  waiters.Leave(&waiter);
  ownership.Release();
}

TEST(WaitersTest, AThreadThatSpinsSeesThatTheRoleIsFree) {
  transport::Ownership ownership;
  base::Counter polls;
  Waiters waiters(ownership, polls, kLongSpin);
  Waiter waiter;
  EXPECT_FALSE(waiters.WaitForTurn(&waiter));
  EXPECT_FALSE(waiters.any());
}

TEST(WaitersTest, AThreadIsListedBeforeItSleeps) {
  transport::Ownership ownership;
  base::Counter polls;
  Acquire(ownership);
  Waiters waiters(ownership, polls, absl::ZeroDuration());
  Waiter waiter;
  // The waiter is to try the ownership once more, now that it can be woken.
  EXPECT_FALSE(waiters.WaitForTurn(&waiter));
  EXPECT_TRUE(waiters.any());
  std::thread thread([&] { EXPECT_TRUE(waiters.WaitForTurn(&waiter)); });
  waiters.Finish(&waiter);
  thread.join();
  EXPECT_FALSE(waiters.any());
  ownership.Release();
}

TEST(WaitersTest, OneThreadAtATimeIsWokenToTryTheRole) {
  transport::Ownership ownership;
  base::Counter polls;
  Acquire(ownership);
  Waiters waiters(ownership, polls, absl::ZeroDuration());
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
  ownership.Release();
}

TEST(WaitersTest, AThreadThatPollsWaitsNoMore) {
  transport::Ownership ownership;
  base::Counter polls;
  Acquire(ownership);
  Waiters waiters(ownership, polls, absl::ZeroDuration());
  Waiter waiter;
  EXPECT_FALSE(waiters.WaitForTurn(&waiter));
  EXPECT_TRUE(waiters.any());
  waiters.Leave(&waiter);
  EXPECT_FALSE(waiters.any());
  Waiters::FinishOwn(&waiter);
  EXPECT_TRUE(waiter.finished());
  ownership.Release();
}

}  // namespace
}  // namespace verbena::internal
