#include "transport/polling/poller_threads.h"

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

// The time between two looks of the standby. A task that blocks holds the owner
// up for once to twice as long, and longer if the standby gets no processor.
constexpr int64_t kLookIntervalNs = 1'000'000;

// The time from the waking of the owner to the first look. Longer than the time
// between two calls that come once a millisecond, each of which puts the look
// off; a task that it finds is looked at again after LoanWatch::kLong.
constexpr int64_t kFirstLookNs = 1'500'000;

// A timer that was set no longer ago than this is not set again: what begins
// now still has its first look within a look's interval and this.
constexpr int64_t kSetAgainAfterNs = 500'000;

// Threads at most, almost all of which tasks hold up then. There is no further
// standby until one of them comes back.
constexpr int kMostThreads = 64;

// A look that comes so long after the last one is soon followed by another if
// the ownership is lent: the loan may be as old as the pause.
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

PollerThreads::PollerThreads(const char* name, Ownership* ownership,
                             std::function<void()> drive)
    : ownership_(*ownership),
      drive_(std::move(drive)),
      timer_(NewTimer()),
      threads_(name) {}

PollerThreads::~PollerThreads() { CHECK(empty()); }

absl::Status PollerThreads::Start() {
  return threads_.Start([this] {
    CHECK(ownership_.TryAcquire());
    owner_ = gettid();
    drive_();
    if (BecomeStandby()) StandBy();
  });
}

void PollerThreads::StandBy() {
  do {
    if (!AwaitOwnership()) return;
    drive_();
  } while (BecomeStandby());
}

// Each task has a loan of its own, so that the standby sees which one is long.
bool PollerThreads::RunTasks() {
  for (int i = 0; i < kTasksATurn && !empty(); ++i) {
    ShortTask* const task = waiting_.PopFront();
    observer_ = task->observer_;
    const Ownership::State loan = Lend();
    task->Run();
    if (ABSL_PREDICT_FALSE(!ownership_.Reclaim(loan))) return false;
  }
  return true;
}

// The thread that was the owner is in a task, which may be gone by now. The
// tasks behind that one wait here.
void PollerThreads::TakeOver(bool asleep) {
  owner_ = gettid();
  if (asleep && observer_ != nullptr) observer_->OnBlocked();
  // Those that stay are posted again, behind the others.
  for (uint32_t left = waiting_.size(); left > 0; --left) {
    ShortTask* const task = waiting_.PopFront();
    if (!task->MoveElsewhere()) Post(task);
  }
}

// Leaves a timer alone that runs and was set a moment ago, because setting it
// is a system call.
void PollerThreads::StartWatch() {
  // Without a timer, or when no thread could be started, there is no
  // standby.
  if (!timer_.valid() || !has_standby_.load(std::memory_order_relaxed)) return;
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

void PollerThreads::LeaveWatch() {
  watched_ = false;
  if (!wakes_seldom_.load(std::memory_order_relaxed)) {
    timer_state_.store(Timer::kLeft);
    return;
  }
  timer_state_.store(Timer::kStopped);
  SetTimer(timer_.get(), 0, 0);
}

// By the standby, when the timer has gone off. Returns whether it has stopped.
bool PollerThreads::StopUnlessWanted() {
  Timer state = Timer::kLeft;
  if (timer_state_.compare_exchange_strong(state, Timer::kStopped)) {
    wakes_seldom_.store(true, std::memory_order_relaxed);
  } else if (state == Timer::kWanted) {
    return false;
  }
  SetTimer(timer_.get(), 0, 0);
  // The owner may have set it before it was stopped.
  if (timer_state_.load() == Timer::kStopped) return true;
  SetTimer(timer_.get(), kLookIntervalNs, kLookIntervalNs);
  return false;
}

bool PollerThreads::StartStandby() {
  const base::MutexLock lock(mutex_);
  if (has_standby_.load(std::memory_order_relaxed)) return true;
  const absl::Time now = base::Now();
  if (count_ == kMostThreads || now < start_again_) return false;
  start_again_ = now + kStartAgain;
  if (!timer_.valid()) timer_ = NewTimer();
  if (!timer_.valid()) return false;
  if (!threads_.Start([this] { StandBy(); }).ok()) return false;
  start_again_ = absl::InfinitePast();
  ++count_;
  has_standby_.store(true, std::memory_order_relaxed);
  return true;
}

void PollerThreads::End() {
  CHECK(empty());
  const base::MutexLock lock(mutex_);
  ended_.store(true);
  // Wakes the standby.
  if (timer_.valid()) SetTimer(timer_.get(), /*first_ns=*/1, 0);
}

bool PollerThreads::BecomeStandby() {
  const base::MutexLock lock(mutex_);
  if (ended_.load(std::memory_order_relaxed) ||
      has_standby_.load(std::memory_order_relaxed)) {
    --count_;
    return false;
  }
  has_standby_.store(true, std::memory_order_relaxed);
  return true;
}

// Looks at the ownership each time that the timer goes off. A loan that goes on
// for kLong is taken over.
bool PollerThreads::AwaitOwnership() {
  LoanWatch watch;
  absl::Time last_look = absl::InfinitePast();
  while (true) {
    uint64_t looks = 0;
    // Interrupted or not: a look more does no harm.
    (void)!read(timer_.get(), &looks, sizeof(looks));
    // Stop the timer first, and read ended_ afterwards: End() sets ended_
    // before it starts the timer, so the standby cannot miss it.
    const bool stopped = StopUnlessWanted();
    if (ended_.load()) return false;
    if (stopped) continue;
    const Ownership::State state = ownership_.Look();
    const absl::Time time = base::Now();
    const absl::Duration pause = time - std::exchange(last_look, time);
    if (!watch.IsLong(state, time)) {
      if (Ownership::IsLent(state) && pause > kLongPause) {
        SetTimer(timer_.get(), absl::ToInt64Nanoseconds(LoanWatch::kLong),
                 kLookIntervalNs);
      }
      continue;
    }
    // Before it takes over: a thread that comes back to find its loan gone may
    // sleep too. A thread that lost its processor is no fault of its task.
    const bool asleep = IsAsleep(owner_);
    // The owner may have come back just now: then there is nothing to
    // take over.
    if (!ownership_.TakeOver(state)) continue;
    {
      const base::MutexLock lock(mutex_);
      has_standby_.store(false, std::memory_order_relaxed);
    }
    TakeOver(asleep);
    return true;
  }
}

}  // namespace verbena::transport
