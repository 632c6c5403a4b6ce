#include "transport/soft/base/biased_lock.h"

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "transport/base/cycle_counter.h"

namespace verbena::soft {
namespace {

// Takes the lock often enough to own it, if no other thread takes it meanwhile.
void TakeOver(BiasedLock& lock) {
  for (uint32_t i = 0; i < BiasedLock::kUsesToOwn; ++i) {
    BiasedLock::Guard guard(lock);
  }
}

bool TryOnce(BiasedLock& lock) {
  const bool got = lock.try_lock();
  if (got) lock.unlock();
  return got;
}

template <typename Body>
void OnAnotherThread(Body body) {
  std::thread(body).join();
}

TEST(BiasedLockTest, BelongsToWhoUsesItOften) {
  BiasedLock lock;
  EXPECT_FALSE(lock.OwnedByThisThread());
  TakeOver(lock);
  EXPECT_EQ(lock.OwnedByThisThread(), BiasedLock::CanBeOwned());
}

TEST(BiasedLockTest, MovesToAnotherThreadThatUsesItOften) {
  BiasedLock lock;
  TakeOver(lock);
  OnAnotherThread([&] {
    EXPECT_TRUE(TryOnce(lock));
    EXPECT_FALSE(lock.OwnedByThisThread());
    TakeOver(lock);
    EXPECT_EQ(lock.OwnedByThisThread(), BiasedLock::CanBeOwned());
  });
  TakeOver(lock);
  EXPECT_EQ(lock.OwnedByThisThread(), BiasedLock::CanBeOwned());
}

TEST(BiasedLockTest, MovesAnyNumberOfTimesBetweenThreadsThatComeBack) {
  constexpr int kThreads = 8;
  BiasedLock lock;
  std::atomic<int> turn{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 4; ++round) {
        while (turn.load() != round * kThreads + i) std::this_thread::yield();
        TakeOver(lock);
        turn.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(TryOnce(lock));
}

TEST(BiasedLockTest, IsNotToBeHadWhileItsOwnerHoldsIt) {
  BiasedLock lock;
  TakeOver(lock);
  lock.lock();
  OnAnotherThread([&] {
    EXPECT_FALSE(TryOnce(lock));
    EXPECT_FALSE(TryOnce(lock));
  });
  lock.unlock();
  OnAnotherThread([&] { EXPECT_TRUE(TryOnce(lock)); });
  EXPECT_TRUE(TryOnce(lock));
}

TEST(BiasedLockTest, IsNotToBeHadByItsFormerOwnerWhileAnotherHoldsIt) {
  BiasedLock lock;
  TakeOver(lock);
  std::atomic<bool> held{false};
  std::atomic<bool> done{false};
  std::thread other([&] {
    BiasedLock::Guard guard(lock);
    held.store(true);
    while (!done.load()) std::this_thread::yield();
  });
  while (!held.load()) std::this_thread::yield();
  EXPECT_FALSE(TryOnce(lock));
  done.store(true);
  other.join();
  EXPECT_TRUE(TryOnce(lock));
}

TEST(BiasedLockTest, WaitsForTheHolderAndLeavesItTheOwner) {
  BiasedLock lock;
  std::atomic<bool> held{false};
  std::atomic<bool> released{false};
  std::thread owner([&] {
    TakeOver(lock);
    lock.lock();
    held.store(true);
    std::this_thread::yield();
    released.store(true);
    lock.unlock();
    EXPECT_EQ(lock.OwnedByThisThread(), BiasedLock::CanBeOwned());
  });
  while (!held.load()) std::this_thread::yield();
  BiasedLock::FenceAllThreads();
  lock.WaitForHolder();
  EXPECT_TRUE(released.load());
  owner.join();
}

// Every thread adds to plain counters: one that was let in beside another would
// lose an addition. Bursts let the ownership move all the time.
void Stress(const std::vector<int>& bursts, int uses) {
  BiasedLock lock;
  uint64_t first = 0;
  uint64_t second = 0;
  std::atomic<uint64_t> added{0};
  std::vector<std::thread> threads;
  for (const int burst : bursts) {
    threads.emplace_back([&, burst] {
      uint64_t mine = 0;
      for (int i = 0; i < uses; ++i) {
        if (i % burst == 0) std::this_thread::yield();
        if (i % 3 != 0) {
          lock.lock();
        } else if (!lock.try_lock()) {
          continue;
        }
        ++first;
        std::atomic_signal_fence(std::memory_order_seq_cst);
        ++second;
        lock.unlock();
        ++mine;
      }
      added.fetch_add(mine);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(first, added.load());
  EXPECT_EQ(second, added.load());
}

TEST(BiasedLockTest, KeepsTwoBusyThreadsApart) {
  Stress({100000, 100000}, 300000);
}

TEST(BiasedLockTest, KeepsAnOwnerAndAnOccasionalUserApart) {
  constexpr int kVisits = 3000;
  BiasedLock lock;
  uint64_t counter = 0;
  uint64_t owner_added = 0;
  std::atomic<bool> stop{false};
  std::thread owner([&] {
    for (; !stop.load(std::memory_order_relaxed); ++owner_added) {
      BiasedLock::Guard guard(lock);
      ++counter;
    }
  });
  for (int i = 0; i < kVisits; ++i) {
    {
      BiasedLock::Guard guard(lock);
      ++counter;
    }
    // Lets the other thread become the owner again.
    for (int pause = 0; pause < 300; ++pause) base::RelaxProcessor();
  }
  stop.store(true);
  owner.join();
  EXPECT_EQ(counter, owner_added + kVisits);
}

TEST(BiasedLockTest, KeepsMoreThreadsApartThanItHasFlags) {
  Stress({1, 7, 300, 1000, 1000, 5000, 70000}, 40000);
}

}  // namespace
}  // namespace verbena::soft
