#include "rpc/internal/client/shared_poller.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/memory/memory.h"
#include "transport/base/check.h"
#include "transport/base/clock.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {

// Starts the thread last: it uses all of the poller.
absl::StatusOr<std::unique_ptr<SharedPoller>> SharedPoller::Create(
    absl::Duration spin_budget) {
  ASSIGN_OR_RETURN(std::unique_ptr<transport::ClientPoller> client_poller,
                   transport::ClientPoller::Create());
  std::unique_ptr<SharedPoller> poller =
      absl::WrapUnique(new SharedPoller(std::move(client_poller), spin_budget));
  RETURN_IF_ERROR(poller->background_.Start());
  return poller;
}

absl::StatusOr<std::unique_ptr<SharedPoller>> SharedPoller::CreateStepped(
    uint64_t seed) {
  ASSIGN_OR_RETURN(std::unique_ptr<transport::ClientPoller> client_poller,
                   transport::ClientPoller::Create());
  std::unique_ptr<SharedPoller> poller = absl::WrapUnique(
      // A budget of zero: in a simulation nobody waits, so nobody spins.
      new SharedPoller(std::move(client_poller), absl::ZeroDuration()));
  poller->Seed(seed);
  return poller;
}

SharedPoller::SharedPoller(
    std::unique_ptr<transport::ClientPoller> client_poller,
    absl::Duration spin_budget)
    : client_poller_(std::move(client_poller)),
      transport_(client_poller_->poller()),
      spin_(spin_budget),
      ownership_(transport_.ownership()),
      waiters_(ownership_, transport_.counters().polls, spin_budget),
      background_(this, &spin_) {}

// Stops the thread before it looks at what the thread could still change.
SharedPoller::~SharedPoller() {
  CHECK(!pinned());
  background_.Stop();
  CHECK(ownership_.TryAcquire());
  // ClientPoller requires that nothing of others is posted when it ends.
  while (transport_.RunPosted() > 0) {
  }
  CHECK(timers_.empty());
  CHECK_EQ(pending_, 0);
  ownership_.Release();
}

uint64_t SharedPoller::NewSeed() {
  // In the order in which channels are made, so each run of a simulation has
  // the same pauses.
  if (next_seed_.has_value()) return (*next_seed_)++;
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

absl::Time SharedPoller::NextStep() {
  if (!ownership_.TryAcquire()) {
    CHECK(false) << "a simulation has one thread";
    return absl::InfinitePast();
  }
  // The fields are guarded by the ownership, though nobody else can have it.
  const absl::Time next = std::min(NextTimer(), transport_.next_wake());
  ownership_.Release();
  return next;
}

void SharedPoller::PostFromOutside(transport::Task* task) {
  // Posted before the look at the thread, so that the thread finds the task
  // when it looks.
  transport_.Post(task);
  // If nobody holds the ownership, it is for the background thread to take it.
  background_.Notify();
}

void SharedPoller::LowerTimer(PollerTimer* timer, absl::Time time) {
  ownership_.AssertHeld();
  // The timer will go off earlier anyway. Its owner asks again then.
  if (time >= timer->due_) return;
  CancelTimer(timer);
  timer->due_ = time;
  timer->order_ = next_timer_order_++;
  timers_.emplace(std::pair(time, timer->order_), timer);
  background_.Notify();
}

void SharedPoller::CancelTimer(PollerTimer* timer) {
  ownership_.AssertHeld();
  // Does nothing to a timer that is not set.
  timers_.erase({timer->due_, timer->order_});
  timer->due_ = absl::InfiniteFuture();
}

// Takes each timer out before it is called, because the call may set it again.
void SharedPoller::RunTimers(absl::Time now) {
  while (NextTimer() <= now) {
    PollerTimer* const timer = timers_.begin()->second;
    CancelTimer(timer);
    timer->on_time_(now);
  }
}

bool SharedPoller::KeepPolling(transport::SpinPolicy::Wait* wait) {
  const absl::Time now = base::Now();
  RunTimers(now);
  // Nothing completes while large parts are on their way, so the thread spins
  // that much longer.
  return wait->Look(now, transport_.TransferTime());
}

// Ends the watch of the background thread, arms the queues, and sleeps with the
// ownership held. Other threads wake it by Post().
void SharedPoller::SleepAsHolder(const Waiter& waiter) {
  // Two that sleep there would take each other's wake-ups.
  background_.EndWatch();
  if (!transport_.PrepareSleep()) return;
  // The events handled last may have finished `waiter`: then do not sleep.
  transport_.WaitForEvent(waiter.finished() ? absl::InfinitePast()
                                            : NextTimer());
}

}  // namespace verbena::internal
