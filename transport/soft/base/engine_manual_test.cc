// The engine without its thread.

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <vector>

#include "transport/soft/base/clock.h"
#include "transport/soft/base/engine.h"

namespace verbena::soft {
namespace {

using std::chrono::seconds;

class EngineManualTest : public testing::Test {
 protected:
  void MoveBy(seconds time) {
    engine_.clock().MoveTo(engine_.clock().Now() + time);
  }

  Engine engine_{Clock::Kind::kManual};
};

TEST_F(EngineManualTest, NothingRunsUnlessItIsRun) {
  int ran = 0;
  engine_.Post([&] { ++ran; });
  EXPECT_EQ(ran, 0);
  EXPECT_LE(engine_.NextDue(), engine_.clock().Now());
  EXPECT_TRUE(engine_.RunOnce());
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(engine_.NextDue(), Engine::TimePoint::max());
}

TEST_F(EngineManualTest, ATimerRunsWhenTheClockIsThere) {
  std::vector<int> order;
  engine_.StartTimer(seconds(20), [&] { order.push_back(20); });
  engine_.StartTimer(seconds(10), [&] { order.push_back(10); });
  EXPECT_EQ(engine_.NextDue(), engine_.clock().Now() + seconds(10));
  EXPECT_TRUE(engine_.RunOnce());  // To start a timer has woken the engine.
  MoveBy(seconds(9));
  EXPECT_FALSE(engine_.RunOnce());
  MoveBy(seconds(1));
  EXPECT_TRUE(engine_.RunOnce());
  EXPECT_EQ(order, std::vector<int>({10}));
  MoveBy(seconds(10));
  EXPECT_TRUE(engine_.RunOnce());
  EXPECT_EQ(order, std::vector<int>({10, 20}));
}

TEST_F(EngineManualTest, ACallbackMayUnwatchItself) {
  const int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
  int called = 0;
  engine_.Watch(fd, [&] {
    ++called;
    engine_.Unwatch(fd);
  });
  EXPECT_TRUE(engine_.RunOnce());
  EXPECT_FALSE(engine_.RunOnce());
  EXPECT_EQ(called, 1);
  close(fd);
}

TEST_F(EngineManualTest, SettlingRunsWhatIsReady) {
  bool first = false;
  bool second = false;
  engine_.Post([&] { first = true; });
  engine_.RunAndCatchUp([&] { second = true; }, seconds(10));
  EXPECT_TRUE(first);
  EXPECT_TRUE(second);
}

}  // namespace
}  // namespace verbena::soft
