#include "rpc/task.h"

#include <coroutine>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "rpc/executor.h"

namespace verbena {
namespace {

Task<int> Twice(int x) { co_return 2 * x; }

Task<int> FourTimes(int x) {
  const int twice = co_await Twice(x);
  co_return co_await Twice(twice);
}

TEST(TaskTest, ATaskAwaitsAnother) { EXPECT_EQ(SyncWait(FourTimes(3)), 12); }

Task<void> Note(std::string* notes, char note) {
  notes->push_back(note);
  co_return;
}

TEST(TaskTest, ATaskBeginsWhenItIsAwaited) {
  std::string notes;
  Task<void> task = Note(&notes, 'a');
  EXPECT_EQ(notes, "");
  SyncWait(std::move(task));
  EXPECT_EQ(notes, "a");
}

TEST(TaskTest, ATaskThatNeverBeganIsDestroyed) {
  std::string notes;
  { const Task<void> task = Note(&notes, 'a'); }
  EXPECT_EQ(notes, "");
}

Task<int> Throw() {
  throw std::runtime_error("thrown");
  co_return 0;
}

Task<std::string> Catch() {
  try {
    co_await Throw();
  } catch (const std::runtime_error& error) {
    co_return error.what();
  }
  co_return "nothing was thrown";
}

TEST(TaskTest, AnExceptionIsThrownAtWhoAwaits) {
  EXPECT_EQ(SyncWait(Catch()), "thrown");
  EXPECT_THROW(SyncWait(Throw()), std::runtime_error);
}

Task<std::unique_ptr<int>> Make(int x) { co_return std::make_unique<int>(x); }

TEST(TaskTest, AValueMayBeOneThatIsOnlyMoved) {
  EXPECT_EQ(*SyncWait(Make(7)), 7);
}

// A thread for each coroutine.
class Threads final : public Executor {
 public:
  ~Threads() override {
    for (std::thread& thread : threads_) thread.join();
  }
  void Execute(std::coroutine_handle<> coroutine) override {
    threads_.emplace_back([coroutine] { coroutine.resume(); });
  }

 private:
  std::vector<std::thread> threads_;
};

Task<int> OnThread(Threads* threads, int x) {
  co_await ResumeOn(threads);
  co_return x;
}

TEST(TaskTest, AllTasksRunAtOnceAndTheirValuesKeepTheirOrder) {
  Threads threads;
  std::vector<Task<int>> tasks;
  for (int i = 0; i < 20; ++i) tasks.push_back(OnThread(&threads, i));
  const std::vector<int> values = SyncWait(WhenAll(std::move(tasks)));
  ASSERT_EQ(values.size(), 20u);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(values[i], i);
}

TEST(TaskTest, TasksOfSeveralTypesMayBeAwaitedTogether) {
  Threads threads;
  std::string notes;
  const auto [number, nothing, made] =
      SyncWait(WhenAll(OnThread(&threads, 3), Note(&notes, 'x'), Make(4)));
  EXPECT_EQ(number, 3);
  EXPECT_EQ(notes, "x");
  EXPECT_EQ(*made, 4);
}

TEST(TaskTest, AllMayHaveValuesThatAreOnlyMoved) {
  std::vector<Task<std::unique_ptr<int>>> tasks;
  tasks.push_back(Make(1));
  tasks.push_back(Make(2));
  const auto values = SyncWait(WhenAll(std::move(tasks)));
  EXPECT_EQ(*values[0] + *values[1], 3);
}

TEST(TaskTest, NoTasksAreOverAtOnce) {
  EXPECT_TRUE(SyncWait(WhenAll(std::vector<Task<int>>())).empty());
}

TEST(TaskTest, OneOfAllMayThrow) {
  std::vector<Task<int>> tasks;
  tasks.push_back(Twice(1));
  tasks.push_back(Throw());
  EXPECT_THROW(SyncWait(WhenAll(std::move(tasks))), std::runtime_error);
}

Task<int> Sum(int depth) {
  if (depth == 0) co_return 0;
  co_return 1 + co_await Sum(depth - 1);
}

TEST(TaskTest, TasksMayBeNestedDeeply) { EXPECT_EQ(SyncWait(Sum(1000)), 1000); }

}  // namespace
}  // namespace verbena
