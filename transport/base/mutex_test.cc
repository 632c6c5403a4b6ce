#include "transport/base/mutex.h"

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "transport/base/clock.h"
#include "transport/base/spin_lock.h"

namespace verbena::base {
namespace {

bool IsFree(Mutex& mutex) {
  bool locked = false;
  std::thread other([&mutex, &locked] {
    if (mutex.try_lock()) {
      locked = true;
      mutex.unlock();
    }
  });
  other.join();
  return locked;
}

TEST(MutexTest, IsHeldAsLongAsTheScopedLockLives) {
  Mutex mutex;
  EXPECT_TRUE(IsFree(mutex));
  {
    const MutexLock lock(mutex);
    EXPECT_FALSE(IsFree(mutex));
  }
  EXPECT_TRUE(IsFree(mutex));
}

TEST(MutexTest, ScopedLockLetsGoOnlyBetweenUnlockAndLock) {
  Mutex mutex;
  {
    MutexLock lock(mutex);
    lock.Unlock();
    EXPECT_TRUE(IsFree(mutex));
    lock.Lock();
    EXPECT_FALSE(IsFree(mutex));
    lock.Unlock();
  }
  EXPECT_TRUE(IsFree(mutex));
}

template <typename Lockable>
void CountByTwoThreads() {
  constexpr int kTimes = 20000;
  Lockable lockable;
  int count = 0;
  const auto add = [&] {
    for (int i = 0; i < kTimes; ++i) {
      const ScopedLock<Lockable> lock(lockable);
      ++count;
    }
  };
  std::thread other(add);
  add();
  other.join();
  EXPECT_EQ(count, 2 * kTimes);
}

TEST(MutexTest, OneThreadAtATime) {
  CountByTwoThreads<Mutex>();
  CountByTwoThreads<SpinLock>();
}

// A value that threads hand to each other.
class Turn {
 public:
  void Set(int turn) {
    const MutexLock lock(mutex_);
    turn_ = turn;
    changed_.NotifyAll();
  }

  void Await(int turn) {
    const MutexLock lock(mutex_);
    while (turn_ != turn) changed_.Wait(mutex_);
  }

  bool AwaitUntil(int turn, absl::Time deadline) {
    const MutexLock lock(mutex_);
    while (turn_ != turn) {
      if (!changed_.WaitUntil(mutex_, deadline)) return turn_ == turn;
    }
    return true;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int turn_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST(CondVarTest, WakesWhoeverWaits) {
  Turn turn;
  std::thread other([&turn] {
    turn.Await(1);
    turn.Set(2);
    EXPECT_TRUE(turn.AwaitUntil(3, absl::InfiniteFuture()));
    turn.Set(4);
  });
  turn.Set(1);
  turn.Await(2);
  turn.Set(3);
  turn.Await(4);
  other.join();
}

TEST(CondVarTest, WaitsNoLongerThanItsDeadline) {
  Turn turn;
  const absl::Time deadline = base::Now() + absl::Milliseconds(1);
  EXPECT_FALSE(turn.AwaitUntil(1, deadline));
  EXPECT_GE(base::Now(), deadline);
  EXPECT_FALSE(turn.AwaitUntil(1, absl::InfinitePast()));
}

TEST(CondVarTest, NotifyOneWakesAWaiter) {
  Mutex mutex;
  CondVar changed;
  bool go = false;
  std::thread other([&] {
    const MutexLock lock(mutex);
    while (!go) changed.Wait(mutex);
  });
  {
    const MutexLock lock(mutex);
    go = true;
    changed.NotifyOne();
  }
  other.join();
}

}  // namespace
}  // namespace verbena::base
