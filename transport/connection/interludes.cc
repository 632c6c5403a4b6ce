#include "transport/connection/interludes.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "transport/base/check.h"

namespace verbena::transport {
namespace {

// How often the stand-in looks. A task that blocks holds the poller up for once
// to twice as long, and longer if the stand-in gets no processor.
constexpr int64_t kLookIntervalNs = 1'000'000;

// The replies of tasks that run one after the other go out together, so a batch
// ends after so much time, as the processor's counter counts: some ten
// microseconds.
constexpr uint64_t kBatchCycles = 1 << 15;

// Threads of one poller, almost all of which tasks hold up then. Nobody further
// stands in, and no task is taken on, until one of them comes back.
constexpr int kMostThreads = 64;

// How soon to try again when no thread can be started.
constexpr absl::Duration kStartAgain = absl::Milliseconds(100);

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

Interludes::~Interludes() { CHECK(empty()); }

void Interludes::NoteDriver() { driver_ = gettid(); }

bool Interludes::Run() {
  uint64_t left = kBatchCycles;
  do {
    running_ = first_;
    first_ = first_->next_;
    --listed_;
    if (ABSL_PREDICT_FALSE(!watched_)) StartWatch();
    InterludeTask* const task = running_;
    const DriverSeat::Moment away = seat_.GetUp();
    const uint64_t cycles = task->RunInterlude();
    if (ABSL_PREDICT_FALSE(!seat_.SitDown(away))) return false;
    left -= std::min(left, cycles);
  } while (first_ != nullptr && left > 0);
  return true;
}

void Interludes::StartWatch() {
  watched_ = true;
  SetTimer(timer_.get(), kLookIntervalNs, kLookIntervalNs);
}

void Interludes::StopWatch() {
  watched_ = false;
  SetTimer(timer_.get(), 0, 0);
}

bool Interludes::StartStandIn() {
  const base::MutexLock lock(mutex_);
  if (has_stand_in_.load(std::memory_order_relaxed)) return true;
  if (threads_ == kMostThreads || poller_.now() < start_again_) return false;
  start_again_ = poller_.now() + kStartAgain;
  if (!timer_.valid()) {
    timer_ = base::UniqueFd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
    if (!timer_.valid()) return false;
  }
  if (!start_stand_in_().ok()) return false;
  start_again_ = absl::InfinitePast();
  ++threads_;
  has_stand_in_.store(true, std::memory_order_relaxed);
  return true;
}

void Interludes::End() {
  CHECK(empty());
  const base::MutexLock lock(mutex_);
  ended_.store(true, std::memory_order_relaxed);
  // Wakes the stand-in.
  if (timer_.valid()) SetTimer(timer_.get(), /*first_ns=*/1, 0);
}

bool Interludes::BecomeStandIn() {
  const base::MutexLock lock(mutex_);
  if (ended_.load(std::memory_order_relaxed) ||
      has_stand_in_.load(std::memory_order_relaxed)) {
    --threads_;
    return false;
  }
  has_stand_in_.store(true, std::memory_order_relaxed);
  return true;
}

bool Interludes::Await() {
  Absence absence;
  while (true) {
    uint64_t looks = 0;
    // Interrupted or not: a look more does no harm.
    (void)!read(timer_.get(), &looks, sizeof(looks));
    if (ended_.load(std::memory_order_relaxed)) return false;
    const DriverSeat::Moment now = seat_.Look();
    if (!absence.IsLong(now, absl::Now())) continue;
    // Before the seat is taken: a thread that comes back to find it taken may
    // sleep too. A thread that lost its processor is no fault of its task.
    const bool asleep = IsAsleep(driver_);
    if (!seat_.Take(now)) continue;
    TakeOver(asleep);
    return true;
  }
}

void Interludes::TakeOver(bool task_sleeps) {
  {
    const base::MutexLock lock(mutex_);
    has_stand_in_.store(false, std::memory_order_relaxed);
  }
  // What the task has posted, if anything, waits for this thread to poll, so
  // the task is there.
  if (task_sleeps) running_->OnBlocked();
  NoteDriver();
  while (!empty()) {
    InterludeTask* const task = first_;
    first_ = task->next_;
    --listed_;
    task->MoveElsewhere();
  }
}

}  // namespace verbena::transport
