// ChannelImpl: who polls.

#include <thread>

#include "absl/base/optimization.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "rpc/internal/channel_impl.h"
#include "transport/base/check.h"

namespace verbena::internal {
namespace {

// Polls between two looks at the clock.
constexpr uint32_t kPollsPerClock = 64;

}  // namespace

bool ChannelImpl::Post(PollerTask* task) {
  posted_.Push(task);
  if (role_.TryAcquire()) {
    RunPosted();
    return true;
  }
  WakeHolder();
  return false;
}

void ChannelImpl::PostFromOutside(PollerTask* task) {
  posted_.Push(task);
  WakeHolder();
  // If nobody holds the role, it is for the background thread to take it.
  NotifyBackground();
}

void ChannelImpl::WakeHolder() {
  if (!holder_sleeps_.load(std::memory_order_seq_cst)) return;
  std::lock_guard<std::mutex> lock(mutex_);
  if (sleeping_poller_ != nullptr) sleeping_poller_->Wake();
}

int ChannelImpl::RunPosted() {
  int count = 0;
  if (!posted_.empty()) {
    posted_.TakeAll([&count](PollerTask* task) {
      ++count;
      task->Run();
    });
  }
  return count;
}

int ChannelImpl::PollStep() {
  may_report_ = true;
  int handled = 0;
  if (ABSL_PREDICT_FALSE(!posted_.empty())) handled = RunPosted();
  if (ABSL_PREDICT_FALSE(!completed_.empty())) handled += ReportCompleted();
  if (connection_ != nullptr) {
    in_transport_ = true;
    handled += connection_->poller().PollOnce();
    in_transport_ = false;
  }
  if (ABSL_PREDICT_FALSE(!Connected())) CheckConnection();
  may_report_ = false;
  return handled;
}

bool ChannelImpl::PollFor(UnaryCall* call) {
  UnaryCall::Waiter& waiter = *call->waiter;
  waiter.may_spin = connection_ != nullptr;
  if (connection_ == nullptr) {
    polling_for_ = nullptr;
    return waiter.finished();
  }
  LeaveWaiters(call);
  polling_for_ = call;
  absl::Time idle_since = connection_->poller().now();
  for (uint32_t polls = 1; !waiter.finished() && connection_ != nullptr;
       ++polls) {
    if (PollStep() > 0 || connection_ == nullptr) {
      polls = 0;
      if (connection_ != nullptr) idle_since = connection_->poller().now();
      continue;
    }
    if (polls % kPollsPerClock != 0) continue;
    const absl::Time now = connection_->poller().now();
    if (now >= timer_) RunTimers(now);
    if (now - idle_since <
        endpoint_options_.spin_budget + connection_->poller().TransferTime()) {
      // With fewer cores than pollers, whoever we wait for may need this one.
      std::this_thread::yield();
      continue;
    }
    SleepWithRole();
    if (connection_ != nullptr) idle_since = connection_->poller().now();
  }
  polling_for_ = nullptr;
  return waiter.finished();
}

void ChannelImpl::SleepWithRole() {
  Poller& poller = connection_->poller();
  {
    std::unique_lock<std::mutex> lock(mutex_);
    // Two sleepers at one poller would take each other's wake-ups.
    while (background_waits_) {
      sleeping_poller_->Wake();
      background_left_.wait(lock);
    }
    sleeping_poller_ = &poller;
  }
  holder_sleeps_.store(true, std::memory_order_seq_cst);
  may_report_ = true;
  in_transport_ = true;
  const bool armed = posted_.empty() && poller.PrepareSleep();
  in_transport_ = false;
  may_report_ = false;
  CheckConnection();
  if (armed && connection_ != nullptr && !polling_for_->waiter->finished()) {
    poller.WaitForEvent(timer_);
  }
  holder_sleeps_.store(false, std::memory_order_seq_cst);
  std::lock_guard<std::mutex> lock(mutex_);
  sleeping_poller_ = nullptr;
}

bool ChannelImpl::NeedsBackground() const {
  return !completed_.empty() ||
         (open_async_calls_ > 0 && connection_ != nullptr);
}

void ChannelImpl::ReleaseRole(bool armed) {
  bool connected;
  bool needs_background;
  do {
    connected = connection_ != nullptr;
    needs_background = !completed_.empty() || (!armed && NeedsBackground());
    role_.Release();
    if (posted_.empty() || !role_.TryAcquire()) break;
    RunPosted();
    armed = false;
  } while (true);
  const bool waiters = waiter_count_.load(std::memory_order_seq_cst) > 0;
  if (connected && waiters) WakeWaiter();
  if (needs_background) NotifyBackground();
}

ChannelImpl::Spin ChannelImpl::SpinForTurn(
    const UnaryCall::Waiter& waiter) const {
  const absl::Time until = absl::Now() + endpoint_options_.spin_budget;
  for (uint32_t looks = 1;; ++looks) {
    if (waiter.finished()) return Spin::kFinished;
    if (!role_.Held()) return Spin::kTryRole;
    if (looks % kPollsPerClock != 0) continue;
    if (absl::Now() >= until) return Spin::kSleep;
    std::this_thread::yield();
  }
}

bool ChannelImpl::WaitForTurn(UnaryCall* call) {
  UnaryCall::Waiter* waiter = call->waiter;
  if (waiter->may_spin && waiter->state.load(std::memory_order_relaxed) !=
                              UnaryCall::Waiter::State::kListed) {
    const Spin spin = SpinForTurn(*waiter);
    if (spin == Spin::kTryRole) return false;
    // If it was ever listed, it may still be so: see FinishWaiter().
    if (spin == Spin::kFinished && !waiter->ever_listed) return true;
  }
  std::unique_lock<std::mutex> lock(mutex_);
  auto state = UnaryCall::Waiter::State::kOpen;
  if (waiter->state.compare_exchange_strong(
          state, UnaryCall::Waiter::State::kListed)) {
    // The role may have become free before anybody could know that we wait: let
    // the caller try once more.
    if (!waiter->ever_listed) waiter->changed.emplace();
    waiter->listed = waiter->ever_listed = true;
    waiters_.PushBack(waiter);
    waiter_count_.fetch_add(1, std::memory_order_seq_cst);
    return false;
  }
  while (waiter->listed && !waiter->woken) waiter->changed->wait(lock);
  waiter->woken = false;
  return !waiter->listed;
}

void ChannelImpl::FinishWaiter(UnaryCall* call) {
  UnaryCall::Waiter* waiter = call->waiter;
  constexpr auto kFinished = UnaryCall::Waiter::State::kFinished;
  if (call == polling_for_) {
    waiter->state.store(kFinished, std::memory_order_relaxed);
    return;
  }
  const auto before = waiter->state.exchange(kFinished);
  if (before != UnaryCall::Waiter::State::kListed) return;
  std::lock_guard<std::mutex> lock(mutex_);
  RemoveWaiter(waiter);
  waiter->changed->notify_one();  // It is gone when the mutex is free.
}

void ChannelImpl::LeaveWaiters(UnaryCall* call) {
  UnaryCall::Waiter* waiter = call->waiter;
  // We hold the role, so nobody finishes the call meanwhile.
  auto state = UnaryCall::Waiter::State::kListed;
  if (waiter->state.load(std::memory_order_relaxed) != state) return;
  std::lock_guard<std::mutex> lock(mutex_);
  waiter->state.store(UnaryCall::Waiter::State::kOpen,
                      std::memory_order_relaxed);
  RemoveWaiter(waiter);
}

void ChannelImpl::RemoveWaiter(UnaryCall::Waiter* waiter) {
  waiter->listed = false;
  waiters_.Remove(waiter);
  waiter_count_.fetch_sub(1, std::memory_order_seq_cst);
}

void ChannelImpl::WakeWaiter() {
  std::lock_guard<std::mutex> lock(mutex_);
  UnaryCall::Waiter* waiter = waiters_.first();
  while (waiter != nullptr && waiter->woken) waiter = waiter->next;
  if (waiter == nullptr) return;
  waiter->woken = true;
  waiter->changed->notify_one();
}

}  // namespace verbena::internal
