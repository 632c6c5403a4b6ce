#include "rpc/internal/server/thread_pool.h"

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "gtest/gtest.h"
#include "transport/base/mutex.h"

namespace verbena::internal {
namespace {

// Opens once; Wait() blocks until then.
class Gate {
 public:
  void Open() {
    const base::MutexLock lock(mutex_);
    open_ = true;
    opened_.NotifyAll();
  }
  void Wait() {
    const base::MutexLock lock(mutex_);
    while (!open_) opened_.Wait(mutex_);
  }

 private:
  base::Mutex mutex_;
  base::CondVar opened_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

class CountTask final : public WorkerTask {
 public:
  explicit CountTask(std::atomic<int>* count) : count_(count) {}
  void RunOnWorker() override { ++*count_; }

 private:
  std::atomic<int>* count_;
};

// Says that it runs, and goes on when it may.
class BlockingTask final : public WorkerTask {
 public:
  void RunOnWorker() override {
    running.Open();
    release.Wait();
    done.Open();
  }
  Gate running, release, done;
};

class OrderTask final : public WorkerTask {
 public:
  OrderTask(int number, std::vector<int>* order)
      : number_(number), order_(order) {}
  void RunOnWorker() override { order_->push_back(number_); }

 private:
  int number_;
  std::vector<int>* order_;
};

TEST(ThreadPoolTest, RunsEverythingBeforeItIsDestroyed) {
  std::atomic<int> count = 0;
  std::deque<CountTask> tasks;
  {
    ThreadPool thread_pool(3, 1000);
    for (int i = 0; i < 1000; ++i) {
      ASSERT_TRUE(thread_pool.Submit(&tasks.emplace_back(&count)));
    }
  }
  EXPECT_EQ(count, 1000);
}

TEST(ThreadPoolTest, OneThreadKeepsTheOrder) {
  std::vector<int> order;
  std::deque<OrderTask> tasks;
  {
    ThreadPool thread_pool(1, 10);
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(thread_pool.Submit(&tasks.emplace_back(i, &order)));
    }
  }
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(ThreadPoolTest, RefusesATaskBeyondTheQueueAndGoesOnAfterwards) {
  std::atomic<int> count = 0;
  BlockingTask blocker;
  CountTask first(&count), second(&count), third(&count);
  std::optional<ThreadPool> thread_pool(std::in_place, 1, 2);
  ASSERT_TRUE(thread_pool->Submit(&blocker));
  blocker.running.Wait();
  EXPECT_TRUE(thread_pool->Submit(&first));
  EXPECT_TRUE(thread_pool->Submit(&second));
  EXPECT_FALSE(thread_pool->Submit(&third));
  blocker.release.Open();
  thread_pool.reset();
  EXPECT_EQ(count, 2);
}

TEST(ThreadPoolTest, ABlockedTaskLeavesTheOtherThreadsFree) {
  BlockingTask blocker, other;
  ThreadPool thread_pool(2, 10);
  ASSERT_TRUE(thread_pool.Submit(&blocker));
  blocker.running.Wait();
  other.release.Open();
  ASSERT_TRUE(thread_pool.Submit(&other));
  other.done.Wait();
  blocker.release.Open();
}

}  // namespace
}  // namespace verbena::internal
