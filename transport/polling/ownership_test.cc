#include "transport/polling/ownership.h"

#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace verbena::transport {
namespace {

// Takes the ownership, which is free.
void Acquire(Ownership& ownership) ABSL_EXCLUSIVE_LOCK_FUNCTION(ownership) {
  while (!ownership.TryAcquire()) ADD_FAILURE();
}

TEST(OwnershipTest, HasOneOwnerAndKnowsIt) {
  Ownership ownership;
  EXPECT_FALSE(ownership.HeldByThisThread());
  Acquire(ownership);
  EXPECT_TRUE(ownership.HeldByThisThread());
  EXPECT_FALSE(ownership.TryAcquire());
  std::thread([&ownership] {
    EXPECT_FALSE(ownership.TryAcquire());
    EXPECT_FALSE(ownership.HeldByThisThread());
  }).join();
  ownership.Release();
  EXPECT_FALSE(ownership.HeldByThisThread());
}

TEST(OwnershipTest, ExcludesOtherThreads) {
  Ownership ownership;
  int counter = 0;  // Not atomic: the ownership protects it.
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int done = 0; done < 1000;) {
        if (!ownership.TryAcquire()) {
          std::this_thread::yield();
          continue;
        }
        ++counter;
        ++done;
        ownership.Release();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, 4000);
}

TEST(LoanWatchTest, TwoLooksInARowAreNoLongTime) {
  const absl::Time start = absl::FromUnixSeconds(1000);
  LoanWatch watch;
  EXPECT_FALSE(watch.IsLong(1, start));
  EXPECT_FALSE(watch.IsLong(1, start + absl::Microseconds(1)));
  EXPECT_TRUE(watch.IsLong(1, start + LoanWatch::kLong));
}

TEST(LoanWatchTest, EachLoanCountsForItself) {
  const absl::Time start = absl::FromUnixSeconds(1000);
  LoanWatch watch;
  EXPECT_FALSE(watch.IsLong(1, start));
  EXPECT_FALSE(watch.IsLong(3, start + absl::Seconds(1)));
  EXPECT_FALSE(watch.IsLong(4, start + absl::Seconds(2)));
  EXPECT_FALSE(watch.IsLong(4, start + absl::Seconds(3)));
}

TEST(LoanWatchTest, AClockThatIsSetBackOnlyDelays) {
  const absl::Time start = absl::FromUnixSeconds(1000);
  LoanWatch watch;
  EXPECT_FALSE(watch.IsLong(1, start));
  EXPECT_FALSE(watch.IsLong(1, start - absl::Hours(1)));
  EXPECT_TRUE(watch.IsLong(1, start - absl::Hours(1) + LoanWatch::kLong));
}

}  // namespace
}  // namespace verbena::transport
