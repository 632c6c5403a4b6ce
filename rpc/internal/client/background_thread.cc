#include "rpc/internal/client/background_thread.h"

#include <algorithm>
#include <utility>

#include "rpc/internal/client/shared_poller.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"

namespace verbena::internal {
namespace {

// After how much time without blocking calls the thread begins to watch. While
// it watches, every reply raises an event for it, so it must not watch what
// others poll.
constexpr absl::Duration kDoze = absl::Milliseconds(50);

// Polls that find nothing between two looks at the clock.
constexpr uint32_t kPollsPerClock = 64;

// The BackgroundThread whose task this thread runs.
thread_local const BackgroundThread* runs_task_of = nullptr;

}  // namespace

BackgroundThread::BackgroundThread(SharedPoller* poller,
                                   transport::SpinPolicy* spin)
    : poller_(poller),
      wait_(spin),
      threads_("verbena-client", &ownership_, [this] { Drive(); }) {}

absl::Status BackgroundThread::Start() { return threads_.Start(); }

bool BackgroundThread::RunsTask() const { return runs_task_of == this; }

bool BackgroundThread::RunsAnyTask() { return runs_task_of != nullptr; }

// The thread may be in a task of another SharedPoller, in which it waits for a
// call.
BackgroundThread::TaskScope::TaskScope(const BackgroundThread* thread)
    : outer_(std::exchange(runs_task_of, thread)) {}

BackgroundThread::TaskScope::~TaskScope() { runs_task_of = outer_; }

// Does as little as is safe. Most calls find the flag set or the thread awake,
// and take no lock.
void BackgroundThread::Notify() {
  if (notified_.load(std::memory_order_seq_cst)) return;  // Not yet cleared.
  if (notified_.exchange(true, std::memory_order_seq_cst)) return;
  // The thread is awake, as mostly where callbacks make the next calls.
  if (!may_sleep_.load(std::memory_order_seq_cst)) return;
  // Under the mutex the thread either waits already or has yet to look at
  // notified_.
  const base::MutexLock lock(mutex_);
  // A thread that watches sleeps in epoll, where a condition variable does not
  // reach it.
  if (watches_) {
    poller_->transport().Wake();
  } else {
    wake_.NotifyOne();
  }
}

void BackgroundThread::Stop() {
  stop_.store(true, std::memory_order_seq_cst);
  Notify();
  threads_.Join();
}

// Runs tasks, serves the poller, then sleeps until it is notified or a timer is
// due. A thread that has lost its ownership to a standby leaves the loop.
void BackgroundThread::Drive() {
  while (true) {
    // Before the look at what there is to do, and at stop_: who sets that
    // notifies afterwards.
    notified_.exchange(false, std::memory_order_seq_cst);
    if (stop_.load(std::memory_order_seq_cst)) break;
    // If there is no standby, a task that blocks holds up those behind it;
    // threads in blocking calls poll all the same.
    if (AnyTasks()) threads_.HasStandby();
    // Another thread is in Drive() now, so End() is not for this one.
    if (!RunTasks()) return;
    const absl::Time until = Serve();
    if (!threads_.empty() || notified_.load(std::memory_order_relaxed) ||
        until < base::Now()) {
      continue;
    }
    // The standby need not look at an owner that sleeps.
    threads_.NoteSleep();
    may_sleep_.store(true, std::memory_order_seq_cst);
    {
      const base::MutexLock lock(mutex_);
      while (!notified_.load(std::memory_order_seq_cst) &&
             base::Now() < until) {
        wake_.WaitUntil(mutex_, until);
      }
    }
    // Relaxed: a thread that still reads true takes the lock in vain.
    may_sleep_.store(false, std::memory_order_relaxed);
  }
  threads_.End();
}

bool BackgroundThread::RunTasks() {
  // Two queues: any thread adds to posted_ without a lock, and only the owner
  // touches the other.
  posted_.TakeAll([this](transport::ShortTask* task) { threads_.Post(task); });
  const TaskScope scope(this);
  return threads_.RunTasks();
}

// Does what Drive() does between two sleeps, but never sleeps and never spins.
bool BackgroundThread::Step() {
  notified_.store(false, std::memory_order_relaxed);
  const bool tasks = AnyTasks();
  CHECK(RunTasks());
  SharedPoller& poller = *poller_;
  if (!poller.ownership_.TryAcquire()) {
    CHECK(false) << "a simulation has one thread";
    return false;
  }
  poller.RunTimers(base::Now());
  const bool polled = poller.transport().Step();
  poller.Release();
  // Polling may have posted callbacks.
  return tasks || polled || AnyTasks();
}

// Polls while something is pending. Then returns at once if tasks wait, dozes
// if other threads make calls, and watches otherwise.
absl::Time BackgroundThread::Serve() {
  SharedPoller& poller = *poller_;
  if (!poller.ownership_.TryAcquire()) {
    // The owner serves all calls, and notifies this thread if there is
    // something left to do afterwards.
    return base::Now() + kDoze;
  }
  poller.transport().PollOnce();
  poller.RunTimers(base::Now());
  PollForPending();
  const bool others_called = poller.started_calls_ != seen_calls_;
  seen_calls_ = poller.started_calls_;
  // PollForPending() has stopped for them.
  if (AnyTasks()) {
    poller.Release();
    return absl::InfinitePast();
  }
  // Other threads poll for their own calls just now. A watch would wake this
  // thread at each of their replies.
  if (others_called && poller.pending_ == 0) {
    const absl::Time timer = poller.NextTimer();
    poller.Release();
    return std::min(timer, base::Now() + kDoze);
  }
  threads_.NoteSleep();
  // First whether there is nothing to do, which takes no lock: on a machine
  // where it does not pay to spin, there often is something after all.
  const bool prepared = poller.transport().PrepareSleep();
  // Before the release: a caller that takes the ownership ends the watch before
  // it sleeps itself.
  const bool sleeps = prepared && BeginWatch();
  const absl::Time until = sleeps ? poller.NextTimer() : absl::InfinitePast();
  poller.ReleaseUnless(/*watched=*/sleeps);
  // PrepareSleep() has told posters to wake a sleeper, so the sleep takes place
  // even if it ends at once.
  if (prepared) {
    poller.transport().WaitForEvent(until);
    LeaveWatch();
  }
  wait_.Woke(base::Now());
  return absl::InfinitePast();
}

// Polls on behalf of calls that no thread waits for, until tasks come or
// spinning does not pay.
void BackgroundThread::PollForPending() {
  SharedPoller& poller = *poller_;
  poller.ownership_.AssertHeld();
  uint32_t idle_polls = 0;
  while (poller.pending_ > 0 && !AnyTasks() &&
         !stop_.load(std::memory_order_relaxed)) {
    if (poller.transport().PollOnce() > 0) {
      wait_.Found();
      idle_polls = 0;
    } else if (++idle_polls % kPollsPerClock == 0 &&
               !poller.KeepPolling(&wait_)) {
      return;
    }
  }
}

bool BackgroundThread::BeginWatch() {
  {
    const base::MutexLock lock(mutex_);
    watches_ = true;
  }
  // Behind watches_: a Notify() that sees this flag asks watches_ how to wake
  // the thread.
  may_sleep_.store(true, std::memory_order_seq_cst);
  // A Notify() after this look wakes the watcher.
  return !notified_.load(std::memory_order_seq_cst);
}

void BackgroundThread::LeaveWatch() {
  // As in Drive(): a Notify() that still sees true wakes in vain.
  may_sleep_.store(false, std::memory_order_relaxed);
  const base::MutexLock lock(mutex_);
  watches_ = false;
  watched_.NotifyAll();
}

void BackgroundThread::EndWatch() {
  const base::MutexLock lock(mutex_);
  // A Wake() that comes before the thread sleeps ends that sleep early.
  while (watches_) {
    poller_->transport().Wake();
    watched_.Wait(mutex_);
  }
}

}  // namespace verbena::internal
