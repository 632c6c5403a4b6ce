#include "transport/connection/stand_ins.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"

namespace verbena::transport {
namespace {

// How often the stand-in looks. An errand that blocks holds the driver up for
// once to twice as long, and longer if the stand-in gets no processor.
constexpr int64_t kLookIntervalNs = 1'000'000;

// How long after the driver has woken the first look comes. Longer than the
// time between two calls that come once a millisecond, each of which puts it
// off; an errand that it finds is looked at again after Absence::kLong.
constexpr int64_t kFirstLookNs = 1'500'000;

// A timer that was set no longer ago than this is not set again: what begins
// now still has its first look within a look's interval and this.
constexpr int64_t kSetAgainAfterNs = 500'000;

// Threads of one group, almost all of which errands hold up then. Nobody
// further stands in until one of them comes back.
constexpr int kMostThreads = 64;

// A look that comes so long after the last one is soon followed by another if
// the driver is away: its errand may be as old as the pause.
constexpr absl::Duration kLongPause = absl::Microseconds(1250);

// How soon to try again when no thread can be started.
constexpr absl::Duration kStartAgain = absl::Milliseconds(100);

base::UniqueFd NewTimer() {
  return base::UniqueFd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
}

void SetTimer(int fd, int64_t first_ns, int64_t interval_ns) {
  itimerspec timer = {};
  timer.it_value.tv_nsec = first_ns;
  timer.it_interval.tv_nsec = interval_ns;
  CHECK_EQ(timerfd_settime(fd, 0, &timer, nullptr), 0);
}

// Whether that thread of ours waits for something, and not for a processor.
// The line reads "1234 (its name) S 1 ...". If nobody can tell, it does.
bool IsAsleep(pid_t thread) {
  std::ifstream file(absl::StrCat("/proc/self/task/", thread, "/stat"));
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  return name_end == std::string::npos || line.size() < name_end + 3 ||
         line[name_end + 2] != 'R';
}

}  // namespace

StandIns::StandIns(std::function<absl::Status()> start)
    : start_(std::move(start)), timer_(NewTimer()) {}

void StandIns::NoteDriver() { driver_ = gettid(); }

void StandIns::StartWatch() {
  // Without a timer, or when no thread could be started, nobody stands in.
  if (!timer_.valid() || !has_one_.load(std::memory_order_relaxed)) return;
  watched_ = true;
  const int64_t now = base::NowNanos();
  if (now - std::exchange(watched_since_ns_, now) < kFirstLookNs) {
    wakes_seldom_.store(false, std::memory_order_relaxed);
  }
  const bool runs = timer_state_.exchange(Timer::kWanted) == Timer::kLeft;
  if (runs && now - timer_set_ns_ < kSetAgainAfterNs) return;
  timer_set_ns_ = now;
  SetTimer(timer_.get(), kFirstLookNs, kLookIntervalNs);
}

void StandIns::LeaveWatch() {
  watched_ = false;
  if (!wakes_seldom_.load(std::memory_order_relaxed)) {
    timer_state_.store(Timer::kLeft);
    return;
  }
  timer_state_.store(Timer::kStopped);
  SetTimer(timer_.get(), 0, 0);
}

// By the stand-in, when the timer has gone off. Returns whether it has stopped.
bool StandIns::StopUnlessWanted() {
  Timer state = Timer::kLeft;
  if (timer_state_.compare_exchange_strong(state, Timer::kStopped)) {
    wakes_seldom_.store(true, std::memory_order_relaxed);
  } else if (state == Timer::kWanted) {
    return false;
  }
  SetTimer(timer_.get(), 0, 0);
  // The driver may have set it before it was stopped.
  if (timer_state_.load() == Timer::kStopped) return true;
  SetTimer(timer_.get(), kLookIntervalNs, kLookIntervalNs);
  return false;
}

bool StandIns::StartOne() {
  const base::MutexLock lock(mutex_);
  if (has_one_.load(std::memory_order_relaxed)) return true;
  const absl::Time now = base::Now();
  if (threads_ == kMostThreads || now < start_again_) return false;
  start_again_ = now + kStartAgain;
  if (!timer_.valid()) timer_ = NewTimer();
  if (!timer_.valid()) return false;
  if (!start_().ok()) return false;
  start_again_ = absl::InfinitePast();
  ++threads_;
  has_one_.store(true, std::memory_order_relaxed);
  return true;
}

void StandIns::End() {
  const base::MutexLock lock(mutex_);
  ended_.store(true);
  // Wakes the stand-in.
  if (timer_.valid()) SetTimer(timer_.get(), /*first_ns=*/1, 0);
}

bool StandIns::BecomeStandIn() {
  const base::MutexLock lock(mutex_);
  if (ended_.load(std::memory_order_relaxed) ||
      has_one_.load(std::memory_order_relaxed)) {
    --threads_;
    return false;
  }
  has_one_.store(true, std::memory_order_relaxed);
  return true;
}

bool StandIns::Await(bool* asleep) {
  Absence absence;
  absl::Time last_look = absl::InfinitePast();
  while (true) {
    uint64_t looks = 0;
    // Interrupted or not: a look more does no harm.
    (void)!read(timer_.get(), &looks, sizeof(looks));
    // It stops the timer before it looks whether to end, which starts it.
    const bool stopped = StopUnlessWanted();
    if (ended_.load()) return false;
    if (stopped) continue;
    const DriverSeat::Moment now = seat_.Look();
    const absl::Time time = base::Now();
    const absl::Duration pause = time - std::exchange(last_look, time);
    if (!absence.IsLong(now, time)) {
      if (DriverSeat::IsAway(now) && pause > kLongPause) {
        SetTimer(timer_.get(), absl::ToInt64Nanoseconds(Absence::kLong),
                 kLookIntervalNs);
      }
      continue;
    }
    // Before the seat is taken: a thread that comes back to find it taken may
    // sleep too. A thread that lost its processor is no fault of its errand.
    *asleep = IsAsleep(driver_);
    if (!seat_.Take(now)) continue;
    {
      const base::MutexLock lock(mutex_);
      has_one_.store(false, std::memory_order_relaxed);
    }
    NoteDriver();
    return true;
  }
}

}  // namespace verbena::transport
