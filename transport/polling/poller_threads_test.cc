#include "transport/polling/poller_threads.h"

#include <pthread.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "transport/base/gate.h"

namespace verbena::transport {
namespace {

using base::Gate;

// Does what it is told, and notes what becomes of it.
class TestTask final : public ShortTask, private ShortTask::Observer {
 public:
  explicit TestTask(std::function<void()> body, bool moves = true)
      : ShortTask(this), body_(std::move(body)), moves_(moves) {}

  void Run() override {
    body_();
    ran = true;
  }
  bool MoveElsewhere() override { return moved = moves_; }

  bool ran = false;
  bool blocked = false;
  bool moved = false;

 private:
  void OnBlocked() override { blocked = true; }

  const std::function<void()> body_;
  const bool moves_;
};

// The test is the owner, unless it calls Start().
class PollerThreadsTest : public testing::Test {
 protected:
  ~PollerThreadsTest() override { threads_.Join(); }

  // The first owner runs blocks_, and loses the ownership. The next one runs
  // what is left, and ends when the test says so.
  void Drive() {
    if (TestTask* const first = std::exchange(blocks_, nullptr)) {
      threads_.HasStandby();
      threads_.Post(first);
      for (TestTask* const task : behind_) threads_.Post(task);
      still_owner_ = threads_.RunTasks();
      if (!still_owner_) return;
    } else {
      taken_over_.Open();
      // The next owner may lose the ownership too, if it loses its processor.
      while (!threads_.empty()) {
        if (!threads_.RunTasks()) return;
      }
      may_end_.Wait();
    }
    threads_.End();
  }

  TestTask* blocks_ = nullptr;
  std::vector<TestTask*> behind_;
  bool still_owner_ = true;
  Gate taken_over_, may_end_;
  Ownership ownership_;
  PollerThreads threads_{"test", &ownership_, [this] { Drive(); }};
};

TEST_F(PollerThreadsTest, RunsTasksInTheirOrder) {
  std::vector<int> order;
  std::deque<TestTask> tasks;
  for (int i = 0; i < 5; ++i) {
    tasks.emplace_back([&order, i] { order.push_back(i); });
    threads_.Post(&tasks.back());
  }
  EXPECT_TRUE(threads_.RunTasks());
  EXPECT_TRUE(threads_.empty());
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
  threads_.NoteSleep();
  threads_.End();
}

TEST_F(PollerThreadsTest, LendsTheOwnershipToATask) {
  if (!ownership_.TryAcquire()) return ADD_FAILURE();
  TestTask task([this] {
    EXPECT_TRUE(ownership_.Held());
    EXPECT_FALSE(ownership_.HeldByThisThread());
  });
  threads_.Post(&task);
  EXPECT_TRUE(threads_.RunTasks());
  EXPECT_TRUE(ownership_.HeldByThisThread());
  ownership_.Release();
}

TEST_F(PollerThreadsTest, TakesNoMoreThanItCanDoSoon) {
  std::deque<TestTask> tasks;
  while (threads_.TakesTask()) {
    ASSERT_LT(tasks.size(), 1000u);
    tasks.emplace_back([] {});
    threads_.Post(&tasks.back());
  }
  // The poller has its turn between some of them.
  EXPECT_TRUE(threads_.RunTasks());
  EXPECT_FALSE(tasks.back().ran);
  EXPECT_TRUE(threads_.TakesTask());
  while (!threads_.empty()) EXPECT_TRUE(threads_.RunTasks());
  EXPECT_TRUE(tasks.back().ran);
  threads_.End();
}

TEST_F(PollerThreadsTest, AThreadThatIsHeldUpLosesThePoller) {
  Gate release;
  TestTask blocked([&release] { release.Wait(); });
  TestTask moves([] {});
  TestTask stays([] {}, /*moves=*/false);
  blocks_ = &blocked;
  behind_ = {&moves, &stays};
  ASSERT_TRUE(threads_.Start().ok());
  taken_over_.Wait();
  release.Open();
  may_end_.Open();
  threads_.Join();
  EXPECT_FALSE(still_owner_);
  EXPECT_TRUE(blocked.blocked);
  EXPECT_TRUE(blocked.ran);
  EXPECT_TRUE(moves.moved);
  EXPECT_FALSE(moves.blocked);
  EXPECT_FALSE(moves.ran);
  EXPECT_FALSE(stays.moved);
  EXPECT_TRUE(stays.ran);
}

// No process has room for a stack of this size.
TEST_F(PollerThreadsTest, WithoutAThreadItTakesNoTask) {
  pthread_attr_t usual, absurd;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_attr_init(&absurd), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&absurd, size_t{1} << 50), 0);
  ASSERT_EQ(pthread_setattr_default_np(&absurd), 0);
  EXPECT_FALSE(threads_.TakesTask());
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
  pthread_attr_destroy(&absurd);
  pthread_attr_destroy(&usual);
}

}  // namespace
}  // namespace verbena::transport
