#include "rpc/internal/client/background_thread.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "rpc/internal/client/shared_poller.h"
#include "transport/base/check.h"

namespace verbena::internal {
namespace {

// After how much time without blocking calls the thread begins to watch the
// connection. While it watches, every reply raises an event for it, so it must
// not watch a connection that others poll.
constexpr absl::Duration kDoze = absl::Milliseconds(50);

// How soon to try the role again when a timer is due.
constexpr absl::Duration kTimerRetry = absl::Milliseconds(1);

constexpr uint32_t kPollsPerClock = 64;

}  // namespace

BackgroundThread::~BackgroundThread() {
  const base::MutexLock lock(mutex_);
  CHECK(!thread_.joinable());
}

void BackgroundThread::Notify() {
  const base::MutexLock lock(mutex_);
  if (notified_ || stop_) return;
  notified_ = true;
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { Run(); });
  } else if (!poller_->sleep_.WakeWatcher()) {
    wake_.NotifyOne();
  }
}

void BackgroundThread::Stop() {
  std::thread thread;
  {
    const base::MutexLock lock(mutex_);
    stop_ = true;
    thread = std::move(thread_);
  }
  poller_->sleep_.WakeWatcher();
  wake_.NotifyAll();
  if (thread.joinable()) thread.join();
}

bool BackgroundThread::Notified() {
  const base::MutexLock lock(mutex_);
  return notified_ || stop_;
}

void BackgroundThread::Run() {
  while (!stop_) {
    {
      const base::MutexLock lock(mutex_);
      notified_ = false;
    }
    user_->RunBlocking();
    const absl::Time until = Serve();
    const base::MutexLock lock(mutex_);
    while (!notified_ && !stop_ && absl::Now() < until) {
      wake_.WaitUntil(mutex_, until);
    }
  }
  user_->OnStop();
}

absl::Time BackgroundThread::Serve() {
  SharedPoller& poller = *poller_;
  if (!poller.role_.TryAcquire()) {
    // Who holds it serves all calls, and notifies us if there is something left
    // to do for us afterwards.
    return absl::Now() + (saw_connection_ ? kDoze : kTimerRetry);
  }
  poller.Poll();
  user_->OnNotified();
  poller.RunTimer(absl::Now());
  if (poller.owed_callbacks_ > 0) PollForCallbacks();
  const absl::Time timer = poller.timer_;
  saw_connection_ = poller.connection_ != nullptr;
  if (!saw_connection_) {
    poller.Release();
    return timer;
  }
  const bool others_called = poller.started_calls_ != seen_calls_;
  seen_calls_ = poller.started_calls_;
  if (others_called && poller.owed_callbacks_ == 0) {
    poller.Release();
    return std::min(timer, absl::Now() + kDoze);
  }
  // A connection that the channel lets go of meanwhile is destroyed by this
  // thread, later: its poller stays valid.
  transport::Poller& waits_at = poller.connection_->poller();
  const bool waits = PrepareToWait();
  const absl::Time until = poller.timer_;
  poller.ReleaseUnless(/*watched=*/waits);
  if (waits) waits_at.WaitForEvent(until);
  wait_.Woke(absl::Now());
  poller.sleep_.LeaveAsWatcher();
  return absl::InfinitePast();
}

void BackgroundThread::PollForCallbacks() {
  SharedPoller& poller = *poller_;
  poller.role_.AssertHeld();
  for (uint32_t polls = 1;
       poller.connection_ != nullptr && poller.owed_callbacks_ > 0 && !stop_;
       ++polls) {
    if (poller.Poll() > 0) {
      polls = 0;
      wait_.Found();
    } else if (polls % kPollsPerClock == 0 && poller.connection_ != nullptr &&
               !poller.KeepPolling(&wait_)) {
      return;
    }
  }
}

bool BackgroundThread::PrepareToWait() {
  SharedPoller& poller = *poller_;
  poller.role_.AssertHeld();
  poller.sleep_.EnterAsWatcher(&poller.connection_->poller());
  // Who notifies after this look wakes the watcher.
  const bool armed = !Notified() && poller.PrepareSleep();
  poller.CheckConnection();
  return armed && poller.connection_ != nullptr;
}

}  // namespace verbena::internal
