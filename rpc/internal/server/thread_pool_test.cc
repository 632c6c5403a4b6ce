#include "rpc/internal/server/thread_pool.h"

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/base/clock.h"
#include "transport/base/gate.h"

namespace verbena::internal {
namespace {

using base::Gate;

class CountTask final : public WorkerTask {
 public:
  explicit CountTask(std::atomic<int>* count) : count_(count) {}
  void Run() override { ++*count_; }

 private:
  std::atomic<int>* count_;
};

class OrderTask final : public WorkerTask {
 public:
  OrderTask(int number, std::vector<int>* order)
      : number_(number), order_(order) {}
  void Run() override { order_->push_back(number_); }

 private:
  int number_;
  std::vector<int>* order_;
};

// Says that it runs, and goes on when all may.
class HeldTask final : public WorkerTask {
 public:
  HeldTask(std::atomic<int>* running, Gate* release)
      : running_(running), release_(release) {}
  void Run() override {
    ++*running_;
    release_->Wait();
  }

 private:
  std::atomic<int>* const running_;
  Gate* const release_;
};

class OpeningTask final : public WorkerTask {
 public:
  explicit OpeningTask(Gate* gate) : gate_(gate) {}
  void Run() override { gate_->Open(); }

 private:
  Gate* const gate_;
};

// Submits a task of its own kind and waits for it, so many times over.
class NestedTask final : public WorkerTask {
 public:
  NestedTask(ThreadPool* pool, ThreadPool::Lane* lane, int depth)
      : pool_(pool), lane_(lane), depth_(depth) {}
  void Run() override {
    if (depth_ > 0) {
      NestedTask inner(pool_, lane_, depth_ - 1);
      EXPECT_EQ(pool_->Submit(&inner, lane_, nullptr), absl::OkStatus());
      inner.done.Wait();
    }
    done.Open();
  }
  Gate done;

 private:
  ThreadPool* const pool_;
  ThreadPool::Lane* const lane_;
  const int depth_;
};

void AwaitValue(const std::function<int()>& value, int wanted) {
  const absl::Time deadline = base::Now() + absl::Minutes(2);
  while (value() != wanted && base::Now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(value(), wanted);
}

class ThreadPoolTest : public testing::Test {
 protected:
  // A new pool; the last one runs what it has and ends.
  void Make(int kept, int most, int queue_limit,
            absl::Duration idle_time = absl::Hours(1)) {
    pool_.reset();
    pool_.emplace(ThreadPool::Options{kept, most, queue_limit, idle_time});
  }
  absl::Status Submit(WorkerTask* task) {
    return pool_->Submit(task, &lane_, nullptr);
  }
  // Tasks of `lane` and `owner` that run until release_ opens, or `release`.
  void Hold(int count, ThreadPool::Lane* lane, const void* owner = nullptr,
            Gate* release = nullptr) {
    if (release == nullptr) release = &release_;
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(
          pool_->Submit(&held_.emplace_back(&running_, release), lane, owner),
          absl::OkStatus());
    }
  }
  // A task of lane_ and `owner` that adds its number to order_.
  void SubmitOrdered(int number, const void* owner) {
    ASSERT_EQ(
        pool_->Submit(&ordered_.emplace_back(number, &order_), &lane_, owner),
        absl::OkStatus());
  }
  void AwaitRunning(int count) {
    AwaitValue([this] { return running_.load(); }, count);
  }

  std::atomic<int> running_ = 0;
  Gate release_;
  std::deque<HeldTask> held_;
  std::vector<int> order_;
  std::deque<OrderTask> ordered_;
  ThreadPool::Lane lane_, other_lane_;
  std::optional<ThreadPool> pool_;
};

TEST_F(ThreadPoolTest, RunsEverythingBeforeItIsDestroyed) {
  std::atomic<int> count = 0;
  std::deque<CountTask> tasks;
  Make(3, 3, 1000);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(Submit(&tasks.emplace_back(&count)), absl::OkStatus());
  }
  pool_.reset();
  EXPECT_EQ(count, 1000);
}

// Two lanes could take all threads.
TEST_F(ThreadPoolTest, OneOwnerDoesNotHoldAllThreads) {
  Make(16, 16, 100);
  const int greedy = 0, good = 0;
  Hold(16, &lane_, &greedy);
  Hold(16, &other_lane_, &greedy);
  AwaitRunning(14);
  Gate done;
  OpeningTask task(&done);
  ThreadPool::Lane third;
  ASSERT_EQ(pool_->Submit(&task, &third, &good), absl::OkStatus());
  done.Wait();
  EXPECT_EQ(running_, 14);
  Hold(16, &other_lane_, &good);
  AwaitRunning(16);
  release_.Open();
  AwaitRunning(48);
  pool_.reset();
}

TEST_F(ThreadPoolTest, AnOwnerGetsTheThreadsThatOthersLeave) {
  Make(8, 8, 100);
  const int first = 0, second = 0;
  Gate first_release;
  std::atomic<int> first_running = 0;
  std::deque<HeldTask> tasks;
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(pool_->Submit(&tasks.emplace_back(&first_running, &first_release),
                            &lane_, &first),
              absl::OkStatus());
  }
  AwaitValue([&] { return first_running.load(); }, 4);
  Hold(7, &other_lane_, &second);
  AwaitRunning(4);
  EXPECT_EQ(pool_->use().queued, 3);
  first_release.Open();
  AwaitRunning(7);
  release_.Open();
  pool_.reset();
}

TEST_F(ThreadPoolTest, OneThreadKeepsTheOrder) {
  Make(1, 1, 10);
  for (int i = 0; i < 10; ++i) SubmitOrdered(i, nullptr);
  pool_.reset();
  EXPECT_EQ(order_, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST_F(ThreadPoolTest, ATaskDoesNotOvertakeThoseThatWaitForTheirShare) {
  Make(1, 1, 100);
  const int owner = 0, other = 0;
  Gate others;
  Hold(1, &lane_, &owner);
  AwaitRunning(1);
  SubmitOrdered(1, &owner);
  SubmitOrdered(2, &owner);
  Hold(1, &other_lane_, &other, &others);
  release_.Open();
  AwaitRunning(2);
  // No task of the owner runs: this one would be in its share.
  SubmitOrdered(3, &owner);
  others.Open();
  pool_.reset();
  EXPECT_EQ(order_, (std::vector<int>{1, 2, 3}));
}

// The share shrinks when the tasks stand in their lane already.
TEST_F(ThreadPoolTest, TasksThatArePutOffKeepTheirOrder) {
  Make(8, 8, 100);
  const int owner = 0;
  Gate seven, eighth, first;
  ThreadPool::Lane third_lane, fourth_lane;
  Hold(7, &third_lane, nullptr, &seven);
  Hold(1, &fourth_lane, nullptr, &eighth);
  AwaitRunning(8);
  Hold(1, &lane_, &owner, &first);
  Hold(3, &lane_, &owner);
  for (int number : {1, 2, 3}) SubmitOrdered(number, &owner);
  Hold(3, &other_lane_, &owner);
  seven.Open();
  AwaitRunning(15);
  Hold(1, &third_lane);
  // The owner has seven of eight threads: its tasks are put off, and the other
  // one gets the thread.
  eighth.Open();
  AwaitRunning(16);
  // A single thread runs the three.
  first.Open();
  AwaitValue([this] { return pool_->use().queued; }, 0);
  release_.Open();
  pool_.reset();
  EXPECT_EQ(order_, (std::vector<int>{1, 2, 3}));
}

TEST_F(ThreadPoolTest, RefusesATaskBeyondTheQueueAndGoesOnAfterwards) {
  std::atomic<int> count = 0;
  CountTask first(&count), second(&count), third(&count);
  Make(1, 1, 2);
  Hold(1, &lane_);
  AwaitRunning(1);
  EXPECT_EQ(Submit(&first), absl::OkStatus());
  EXPECT_EQ(Submit(&second), absl::OkStatus());
  const absl::Status refused = Submit(&third);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  for (const char* word :
       {"2 wait", "SetWorkerQueueLimit", "1 workers", "SetMaxWorkerThreads"}) {
    EXPECT_THAT(std::string(refused.message()), testing::HasSubstr(word));
  }
  release_.Open();
  pool_.reset();
  EXPECT_EQ(count, 2);
}

TEST_F(ThreadPoolTest, GrowsWhileTasksBlockAndNoFurtherThanItsBound) {
  Make(2, 50, 1000);
  Hold(20, &lane_);
  AwaitRunning(20);
  EXPECT_EQ(pool_->threads(), 20);
  Hold(100, &lane_);
  Hold(100, &other_lane_);
  AwaitRunning(50);
  EXPECT_EQ(pool_->threads(), 50);
  release_.Open();
  pool_.reset();
  EXPECT_EQ(running_, 220);
}

TEST_F(ThreadPoolTest, TasksThatWaitForEachOtherAreAllRun) {
  Make(1, 50, 1000);
  NestedTask outer(&*pool_, &lane_, 30);
  ASSERT_EQ(Submit(&outer), absl::OkStatus());
  outer.done.Wait();
}

TEST_F(ThreadPoolTest, OneLaneNeverHasAllTheThreads) {
  Make(1, 8, 1000);
  Hold(500, &lane_);
  AwaitRunning(7);
  std::atomic<int> count = 0;
  CountTask other(&count);
  ASSERT_EQ(pool_->Submit(&other, &other_lane_, nullptr), absl::OkStatus());
  AwaitValue([&count] { return count.load(); }, 1);
  EXPECT_EQ(running_, 7);
  release_.Open();
}

// Whatever fills the queue, a task for which there is room does not stand in
// it.
TEST_F(ThreadPoolTest, AFullQueueOfOneLaneDoesNotStopAnother) {
  Make(1, 8, /*queue_limit=*/1);
  for (int i = 1; i <= 7; ++i) {
    Hold(1, &lane_);
    AwaitRunning(i);
  }
  Hold(1, &lane_);  // Waits.
  std::atomic<int> count = 0;
  CountTask refused(&count), other(&count);
  EXPECT_EQ(Submit(&refused).code(), absl::StatusCode::kResourceExhausted);
  ASSERT_EQ(pool_->Submit(&other, &other_lane_, nullptr), absl::OkStatus());
  AwaitValue([&count] { return count.load(); }, 1);
  EXPECT_EQ(running_, 7);
  release_.Open();
}

TEST_F(ThreadPoolTest, LanesTakeTurns) {
  Make(1, 1, 1000);
  Hold(1, &lane_);
  AwaitRunning(1);
  for (int i : {1, 2, 3}) SubmitOrdered(i, nullptr);
  OrderTask other(100, &order_);
  ASSERT_EQ(pool_->Submit(&other, &other_lane_, nullptr), absl::OkStatus());
  release_.Open();
  pool_.reset();
  EXPECT_EQ(order_, (std::vector<int>{100, 1, 2, 3}));
}

TEST_F(ThreadPoolTest, ShrinksToWhatItKeeps) {
  Make(3, 50, 1000, absl::Milliseconds(20));
  Hold(40, &lane_);
  AwaitRunning(40);
  release_.Open();
  AwaitValue([this] { return pool_->threads(); }, 3);
  // And grows again.
  std::atomic<int> count = 0;
  std::deque<CountTask> tasks;
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(Submit(&tasks.emplace_back(&count)), absl::OkStatus());
  }
  pool_.reset();
  EXPECT_EQ(count, 100);
}

// While it lives the system starts no thread: no process has room for such a
// stack.
class NoThreads {
 public:
  NoThreads() {
    pthread_attr_t absurd;
    EXPECT_EQ(pthread_getattr_default_np(&usual_), 0);
    EXPECT_EQ(pthread_attr_init(&absurd), 0);
    EXPECT_EQ(pthread_attr_setstacksize(&absurd, size_t{1} << 50), 0);
    EXPECT_EQ(pthread_setattr_default_np(&absurd), 0);
    pthread_attr_destroy(&absurd);
  }
  ~NoThreads() {
    EXPECT_EQ(pthread_setattr_default_np(&usual_), 0);
    pthread_attr_destroy(&usual_);
  }

 private:
  pthread_attr_t usual_;
};

TEST_F(ThreadPoolTest, StaysAsItIsWhenNoThreadCanBeStarted) {
  std::atomic<int> count = 0;
  std::deque<CountTask> tasks;
  Make(1, 50, 1000);
  Hold(1, &lane_);
  AwaitRunning(1);
  {
    const NoThreads none;
    for (int i = 0; i < 10; ++i) {
      ASSERT_EQ(Submit(&tasks.emplace_back(&count)), absl::OkStatus());
    }
    EXPECT_EQ(pool_->threads(), 1);
    release_.Open();
    AwaitValue([&count] { return count.load(); }, 10);
  }
}

// The one thread is held up for ever by what waits for another.
TEST_F(ThreadPoolTest, ATickStartsTheThreadThatTheSystemRefused) {
  OpeningTask opening(&release_);
  Make(1, 50, 1000);
  Hold(1, &lane_);
  AwaitRunning(1);
  EXPECT_EQ(pool_->Tick(), absl::InfiniteFuture());
  {
    const NoThreads none;
    ASSERT_EQ(Submit(&opening), absl::OkStatus());
    EXPECT_LT(pool_->Tick(), absl::InfiniteFuture());
  }
  while (pool_->Tick() < absl::InfiniteFuture()) std::this_thread::yield();
  release_.Wait();
}

TEST_F(ThreadPoolTest, RefusesTasksWhileThereIsNoThreadAtAll) {
  std::atomic<int> count = 0;
  CountTask first(&count), second(&count);
  Make(1, 50, 1000);
  {
    const NoThreads none;
    const absl::Status refused = Submit(&first);
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("thread"));
  }
  // The pool does not try again at once.
  while (!Submit(&second).ok()) std::this_thread::yield();
  pool_.reset();
  EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace verbena::internal
