// How often the timer of a stand-in is set. What stand-ins do for a poller is
// in interludes_test.cc.

#include "transport/connection/stand_ins.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "absl/time/time.h"
#include "transport/base/clock.h"
#include "transport/base/gate.h"
#include "transport/base/thread_group.h"

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

class StandInsTest : public testing::Test {
 protected:
  StandInsTest() : stand_ins_([this] { return StartStandIn(); }) {
    stand_ins_.NoteDriver();
    EXPECT_TRUE(stand_ins_.HasOne());
  }

  // When the stand-in has become the driver, that is the end.
  absl::Status StartStandIn() {
    return threads_.Start([this] {
      bool asleep;
      if (!stand_ins_.Await(&asleep)) return;
      taken_over_.Open();
      stand_ins_.End();
    });
  }

  // The driver wakes, does something short, and sleeps.
  void WakeAndSleep() {
    const DriverSeat::Moment away = stand_ins_.GetUp();
    // If it loses its processor here for long, the seat may be taken.
    lost_ = lost_ || !stand_ins_.SitDown(away);
    if (!lost_) stand_ins_.NoteSleep();
  }

  static bool TimerRuns() {
    itimerspec left = {};
    EXPECT_EQ(timerfd_gettime(timer.load(), &left), 0);
    return left.it_value.tv_sec != 0 || left.it_value.tv_nsec != 0;
  }

  bool lost_ = false;
  Gate taken_over_;
  StandIns stand_ins_;
  base::ThreadGroup threads_{"test"};
};

TEST_F(StandInsTest, ADriverThatWakesOftenSeldomSetsTheTimer) {
  constexpr int kWakes = 20'000;
  const int before = times_set.load();
  for (int i = 0; i < kWakes && !lost_; ++i) WakeAndSleep();
  EXPECT_GE(times_set.load() - before, 1);
  EXPECT_LT(times_set.load() - before, kWakes / 2);
  if (!lost_) stand_ins_.End();
  threads_.Join();
}

TEST_F(StandInsTest, TheTimerStopsWhenTheDriverSleepsForLong) {
  for (int i = 0; i < 3 && !lost_; ++i) WakeAndSleep();
  if (!lost_) {
    while (TimerRuns()) std::this_thread::yield();
    stand_ins_.End();
  }
  threads_.Join();
}

// However the driver and the stand-in came upon each other before.
TEST_F(StandInsTest, AnErrandThatBlocksIsNoticedAfterManyThatWereShort) {
  for (int i = 0; i < 100 && !lost_; ++i) {
    // Sleeps of different lengths, some of which the timer goes off in.
    const absl::Time until = base::Now() + i * absl::Microseconds(40);
    while (base::Now() < until) std::this_thread::yield();
    WakeAndSleep();
  }
  if (!lost_) {
    const DriverSeat::Moment away = stand_ins_.GetUp();
    taken_over_.Wait();
    EXPECT_FALSE(stand_ins_.SitDown(away));
  }
  threads_.Join();
}

}  // namespace
}  // namespace verbena::transport
