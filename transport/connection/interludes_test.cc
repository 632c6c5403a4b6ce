#include "transport/connection/interludes.h"

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "transport/base/gate.h"
#include "transport/base/thread_group.h"

namespace verbena::transport {
namespace {

using base::Gate;

// Does what it is told, and notes what becomes of it.
class Task final : public InterludeTask {
 public:
  explicit Task(std::function<void()> body, uint64_t cycles = 0)
      : body_(std::move(body)), cycles_(cycles) {}

  uint64_t RunInterlude() override {
    body_();
    ran = true;
    return cycles_;
  }
  void OnBlocked() override { blocked = true; }
  void MoveElsewhere() override { moved = true; }

  bool ran = false;
  bool blocked = false;
  bool moved = false;

 private:
  const std::function<void()> body_;
  const uint64_t cycles_;
};

TEST(AbsenceTest, TwoLooksInARowAreNoLongTime) {
  const absl::Time start = absl::FromUnixSeconds(1000);
  Absence absence;
  EXPECT_FALSE(absence.IsLong(1, start));
  EXPECT_FALSE(absence.IsLong(1, start + absl::Microseconds(1)));
  EXPECT_TRUE(absence.IsLong(1, start + Absence::kLong));
}

TEST(AbsenceTest, EachErrandCountsForItself) {
  const absl::Time start = absl::FromUnixSeconds(1000);
  Absence absence;
  EXPECT_FALSE(absence.IsLong(1, start));
  EXPECT_FALSE(absence.IsLong(3, start + absl::Seconds(1)));
  EXPECT_FALSE(absence.IsLong(4, start + absl::Seconds(2)));
  EXPECT_FALSE(absence.IsLong(4, start + absl::Seconds(3)));
}

TEST(AbsenceTest, AClockThatIsSetBackOnlyDelays) {
  const absl::Time start = absl::FromUnixSeconds(1000);
  Absence absence;
  EXPECT_FALSE(absence.IsLong(1, start));
  EXPECT_FALSE(absence.IsLong(1, start - absl::Hours(1)));
  EXPECT_TRUE(absence.IsLong(1, start - absl::Hours(1) + Absence::kLong));
}

class InterludesTest : public testing::Test {
 protected:
  InterludesTest() : interludes_([this] { return StartStandIn(); }) {
    interludes_.NoteDriver();
  }

  // The stand-in's life: when it has become the driver it runs what is there,
  // and that is the end.
  absl::Status StartStandIn() {
    ++started_;
    return threads_.Start([this] {
      if (!interludes_.Await()) return;
      taken_over_.Open();
      may_end_.Wait();
      interludes_.End();
    });
  }

  int started_ = 0;
  Gate taken_over_, may_end_;
  Interludes interludes_;
  base::ThreadGroup threads_{"test"};
};

TEST_F(InterludesTest, RunsTasksInTheirOrder) {
  std::vector<int> order;
  std::deque<Task> tasks;
  for (int i = 0; i < 5; ++i) {
    tasks.emplace_back([&order, i] { order.push_back(i); });
    ASSERT_TRUE(interludes_.Add(&tasks.back()));
  }
  EXPECT_TRUE(interludes_.Run());
  EXPECT_TRUE(interludes_.empty());
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(started_, 1);
  interludes_.NoteSleep();
  interludes_.End();
  threads_.Join();
}

TEST_F(InterludesTest, ABatchEndsWhenItHasTakenLongEnough) {
  Task first([] {}, /*cycles=*/1'000'000);
  Task second([] {});
  ASSERT_TRUE(interludes_.Add(&first));
  ASSERT_TRUE(interludes_.Add(&second));
  EXPECT_TRUE(interludes_.Run());
  EXPECT_TRUE(first.ran);
  EXPECT_FALSE(second.ran);
  EXPECT_TRUE(interludes_.Run());
  EXPECT_TRUE(second.ran);
  interludes_.End();
  threads_.Join();
}

TEST_F(InterludesTest, TakesNoMoreThanItCanDoSoon) {
  std::deque<Task> tasks;
  tasks.emplace_back([] {});
  while (interludes_.Add(&tasks.back())) {
    ASSERT_LT(tasks.size(), 1000u);
    tasks.emplace_back([] {});
  }
  EXPECT_TRUE(interludes_.Run());
  EXPECT_FALSE(tasks.back().ran);
  EXPECT_TRUE(interludes_.Add(&tasks.back()));
  EXPECT_TRUE(interludes_.Run());
  EXPECT_TRUE(tasks.back().ran);
  interludes_.End();
  threads_.Join();
}

TEST_F(InterludesTest, AThreadThatIsHeldUpLosesThePoller) {
  Gate release;
  Task blocked([&release] { release.Wait(); });
  Task behind([] {});
  ASSERT_TRUE(interludes_.Add(&blocked));
  ASSERT_TRUE(interludes_.Add(&behind));
  bool still_driver = true;
  std::thread driver([&] {
    interludes_.NoteDriver();
    still_driver = interludes_.Run();
  });
  taken_over_.Wait();
  EXPECT_TRUE(blocked.blocked);
  EXPECT_TRUE(behind.moved);
  EXPECT_FALSE(behind.blocked);
  release.Open();
  driver.join();
  EXPECT_FALSE(still_driver);
  EXPECT_TRUE(blocked.ran);
  EXPECT_FALSE(behind.ran);
  // It stands in for the one that took the poller.
  EXPECT_TRUE(interludes_.BecomeStandIn());
  may_end_.Open();
  EXPECT_FALSE(interludes_.Await());
  threads_.Join();
}

TEST_F(InterludesTest, OneStandInIsEnough) {
  Task task([] {});
  ASSERT_TRUE(interludes_.Add(&task));
  EXPECT_FALSE(interludes_.BecomeStandIn());
  EXPECT_TRUE(interludes_.Run());
  interludes_.End();
  threads_.Join();
}

TEST(InterludesWithoutThreadsTest, TakeNoTask) {
  int tried = 0;
  Interludes interludes([&tried] {
    ++tried;
    return absl::ResourceExhaustedError("no thread");
  });
  Task task([] {});
  EXPECT_FALSE(interludes.Add(&task));
  // Nor does it try again at once.
  EXPECT_FALSE(interludes.Add(&task));
  EXPECT_EQ(tried, 1);
  EXPECT_TRUE(interludes.empty());
}

}  // namespace
}  // namespace verbena::transport
