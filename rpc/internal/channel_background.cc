// ChannelImpl: the background thread.

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "rpc/internal/channel_impl.h"
#include "transport/base/check.h"

namespace verbena::internal {
namespace {

// After how much time without blocking calls the background thread begins to
// watch the connection. While it watches, every reply raises an event for it,
// so it must not watch a connection that others poll.
constexpr absl::Duration kDoze = absl::Milliseconds(50);

// How soon to try the role again when a timer is due.
constexpr absl::Duration kTimerRetry = absl::Milliseconds(1);

constexpr uint32_t kPollsPerClock = 64;

}  // namespace

void ChannelImpl::NotifyBackground() {
  std::lock_guard<std::mutex> lock(mutex_);
  NotifyBackgroundLocked();
}

void ChannelImpl::NotifyBackgroundLocked() {
  if (notified_ || stop_) return;
  notified_ = true;
  if (!background_.joinable()) {
    background_ = std::thread([this] { RunBackground(); });
  } else if (background_waits_) {
    sleeping_poller_->Wake();
  } else {
    background_wake_.notify_one();
  }
}

void ChannelImpl::RunBackground() {
  connector_ = std::make_unique<Connector>(
      target_, endpoint_options_,
      [this](Connector::Result result) { OnConnected(std::move(result)); });
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    notified_ = false;
    const bool connect = std::exchange(connect_wanted_, false);
    auto retired = std::exchange(retired_, {});
    lock.unlock();
    retired.clear();
    if (connect) connector_->Start();
    const absl::Time until = Serve();
    lock.lock();
    while (!notified_ && !stop_ && absl::Now() < until) {
      background_wake_.wait_until(lock, absl::ToChronoTime(until));
    }
  }
  lock.unlock();
  Close();
}

absl::Time ChannelImpl::Serve() {
  if (!role_.TryAcquire()) {
    // Who holds it serves all calls, and notifies us if there is something left
    // to do for us afterwards.
    return absl::Now() + (saw_connection_ ? kDoze : kTimerRetry);
  }
  PollStep();
  ConnectIfWanted();
  RunTimers(absl::Now());
  if (open_async_calls_ > 0) PollForCallbacks();
  saw_connection_ = connection_ != nullptr;
  if (connection_ == nullptr) {
    const absl::Time until = timer_;
    ReleaseRole();
    return until;
  }
  if (open_async_calls_ == 0 && started_calls_ != seen_calls_) {
    seen_calls_ = started_calls_;
    const absl::Time until = std::min(timer_, absl::Now() + kDoze);
    ReleaseRole();
    return until;
  }
  seen_calls_ = started_calls_;
  WaitForEvents();
  return absl::InfinitePast();
}

void ChannelImpl::PollForCallbacks() {
  absl::Time idle_since = absl::Now();
  for (uint32_t polls = 1;
       connection_ != nullptr && open_async_calls_ > 0 && !stop_; ++polls) {
    if (PollStep() > 0) {
      polls = 0;
      if (connection_ != nullptr) idle_since = connection_->poller().now();
      continue;
    }
    if (polls % kPollsPerClock != 0 || connection_ == nullptr) continue;
    const absl::Time now = connection_->poller().now();
    if (now >= timer_) RunTimers(now);
    if (now - idle_since >=
        endpoint_options_.spin_budget + connection_->poller().TransferTime()) {
      return;
    }
    std::this_thread::yield();
  }
}

void ChannelImpl::WaitForEvents() {
  Poller& poller = connection_->poller();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!notified_ && !stop_) {
      background_waits_ = true;
      sleeping_poller_ = &poller;
    }
  }
  if (!background_waits_) return ReleaseRole();
  may_report_ = true;
  in_transport_ = true;
  const bool armed = poller.PrepareSleep();
  in_transport_ = false;
  may_report_ = false;
  CheckConnection();
  const absl::Time until = timer_;
  // Retired connections are destroyed by this thread: the poller stays valid.
  const bool wait = armed && connection_ != nullptr;
  ReleaseRole(wait);
  if (wait) poller.WaitForEvent(until);
  std::lock_guard<std::mutex> lock(mutex_);
  background_waits_ = false;
  sleeping_poller_ = nullptr;
  background_left_.notify_all();
}

void ChannelImpl::Close() {
  while (!role_.TryAcquire()) std::this_thread::yield();
  closing_ = true;
  FailPending(absl::CancelledError("the channel was destroyed"), true);
  role_.Release();
  connector_.reset();  // Its thread may post its result, and run that itself.
  while (!role_.TryAcquire()) std::this_thread::yield();
  may_report_ = true;
  RunPosted();
  if (connection_ != nullptr) {
    connection_->poller().ReleaseRole();
    connection_.reset();  // Fails the open calls.
  }
  // Callbacks may have started calls, which failed.
  while (RunPosted() + ReportCompleted() > 0) {
  }
  retired_.clear();
  role_.Release();
}

}  // namespace verbena::internal
