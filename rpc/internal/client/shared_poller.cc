#include "rpc/internal/client/shared_poller.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "transport/base/check.h"

namespace verbena::internal {

SharedPoller::~SharedPoller() {
  CHECK(!role_.Held());
  CHECK(posted_.empty());
  CHECK(callbacks_.empty());
}

void SharedPoller::PostFromOutside(transport::PollerTask* task) {
  posted_.Push(task);
  sleep_.WakeHolder();
  // If nobody holds the role, it is for the background thread to take it.
  background_.Notify();
}

void SharedPoller::Drive(transport::ClientConnection* connection) {
  role_.AssertHeld();
  CHECK(!in_transport_);
  CHECK((connection_ == nullptr) != (connection == nullptr));
  // The transport's poller is ours for as long as we have the connection; the
  // polling role says which thread uses it.
  if (connection == nullptr) {
    connection_->poller().Leave();
  } else {
    connection->poller().Enter();
  }
  connection_ = connection;
}

void SharedPoller::LowerTimer(absl::Time time) {
  role_.AssertHeld();
  if (time >= timer_) return;
  timer_ = time;
  background_.Notify();
}

void SharedPoller::RunTimer(absl::Time now) {
  if (now < timer_) return;
  timer_ = absl::InfiniteFuture();
  user_->OnTimer(now);
}

absl::Time SharedPoller::Now() {
  role_.AssertHeld();
  if (connection_ == nullptr) return absl::Now();
  if (!in_transport_) connection_->poller().RefreshNow();
  return connection_->poller().now();
}

bool SharedPoller::KeepPolling(transport::SpinPolicy::Wait* wait) {
  // The state changes by the clock, too: a peer may be silent for too long.
  CheckConnection();
  const absl::Time now = absl::Now();
  if (connection_ != nullptr) RunTimer(now);
  if (connection_ == nullptr) return true;
  return wait->Look(now, connection_->poller().TransferTime());
}

void SharedPoller::SleepAsHolder(const Waiter& waiter) {
  transport::Poller& poller = connection_->poller();
  sleep_.EnterAsHolder(&poller);
  const bool armed = posted_.empty() && callbacks_.empty() && PrepareSleep();
  // What was handled last may have made a callback due.
  if (armed && callbacks_.empty() && !waiter.finished() &&
      !IsOver(*connection_)) {
    poller.WaitForEvent(timer_);
  }
  // Others may wake us until here, so the connection must not go before.
  sleep_.LeaveAsHolder();
  CheckConnection();
}

bool SharedPoller::PrepareSleep() {
  may_call_back_ = true;
  in_transport_ = true;
  const bool armed = connection_->poller().PrepareSleep();
  in_transport_ = false;
  may_call_back_ = false;
  return armed;
}

int SharedPoller::RunCallbacks() {
  int count = 0;
  callbacks_.TakeAll([&count](transport::PollerTask* task) {
    ++count;
    task->Run();
  });
  return count;
}

void SharedPoller::RunAll() {
  role_.AssertHeld();
  may_call_back_ = true;
  while (RunPosted() + RunCallbacks() > 0) {
  }
  may_call_back_ = false;
}

}  // namespace verbena::internal
