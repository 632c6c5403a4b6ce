// How often the timer of the standby is set.

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "absl/time/time.h"
#include "transport/base/clock.h"
#include "transport/base/gate.h"
#include "transport/polling/poller_threads.h"

namespace {

std::atomic<int> times_set{0};
std::atomic<int> timer{-1};  // The descriptor that was set last.

}  // namespace

// Takes the place of the C library's.
extern "C" int timerfd_settime(int fd, int flags, const itimerspec* to,
                               itimerspec* from) noexcept {
  times_set.fetch_add(1);
  timer.store(fd);
  return static_cast<int>(syscall(SYS_timerfd_settime, fd, flags, to, from));
}

namespace verbena::transport {
namespace {

using base::Gate;

class Nothing final : public ShortTask {
 public:
  void Run() override {}
};

class Blocks final : public ShortTask {
 public:
  explicit Blocks(Gate* until) : until_(*until) {}
  void Run() override { until_.Wait(); }

 private:
  Gate& until_;
};

class PollerThreadsTimerTest : public testing::Test {
 protected:
  PollerThreadsTimerTest() {
    EXPECT_TRUE(ownership_.TryAcquire());
    EXPECT_TRUE(threads_.HasStandby());
  }
  ~PollerThreadsTimerTest() override {
    if (!lost_) threads_.End();
    threads_.Join();
  }

  // The owner wakes, does something short, and sleeps.
  void WakeAndSleep() {
    Nothing task;
    Run(&task);
    if (!lost_) threads_.NoteSleep();
  }
  // If the owner loses its processor here for long, it may lose the ownership.
  void Run(ShortTask* task) {
    threads_.Post(task);
    lost_ = !threads_.RunTasks();
  }

  static bool TimerRuns() {
    itimerspec left = {};
    EXPECT_EQ(timerfd_gettime(timer.load(), &left), 0);
    return left.it_value.tv_sec != 0 || left.it_value.tv_nsec != 0;
  }

  bool lost_ = false;
  Gate taken_over_;
  Ownership ownership_;
  // When the standby has become the owner, that is the end.
  PollerThreads threads_{"test", &ownership_, [this] {
                           taken_over_.Open();
                           threads_.End();
                         }};
};

TEST_F(PollerThreadsTimerTest, AnOwnerThatWakesOftenSeldomSetsTheTimer) {
  constexpr int kWakes = 20'000;
  const int before = times_set.load();
  for (int i = 0; i < kWakes && !lost_; ++i) WakeAndSleep();
  EXPECT_GE(times_set.load() - before, 1);
  EXPECT_LT(times_set.load() - before, kWakes / 2);
}

TEST_F(PollerThreadsTimerTest, TheTimerStopsWhenTheOwnerSleepsForLong) {
  for (int i = 0; i < 3 && !lost_; ++i) WakeAndSleep();
  while (!lost_ && TimerRuns()) std::this_thread::yield();
}

// However the owner and the standby came upon each other before.
TEST_F(PollerThreadsTimerTest, ATaskThatBlocksIsNoticedAfterManyThatWereShort) {
  for (int i = 0; i < 100 && !lost_; ++i) {
    // Sleeps of different lengths, some of which the timer goes off in.
    const absl::Time until = base::Now() + i * absl::Microseconds(40);
    while (base::Now() < until) std::this_thread::yield();
    WakeAndSleep();
  }
  if (lost_) return;
  Blocks blocks(&taken_over_);
  Run(&blocks);
  EXPECT_TRUE(lost_);
}

}  // namespace
}  // namespace verbena::transport
