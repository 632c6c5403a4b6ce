#include "rpc/internal/client/shared_poller.h"

namespace verbena::internal {
namespace {

// Polls that find nothing between two looks at the clock.
constexpr uint32_t kPollsPerClock = 64;

}  // namespace

bool SharedPoller::Post(transport::PollerTask* task) {
  posted_.Push(task);
  if (role_.TryAcquire()) {
    RunPosted();
    return true;
  }
  sleep_.WakeHolder();
  return false;
}

int SharedPoller::RunPosted() {
  int count = 0;
  posted_.TakeAll([&count](transport::PollerTask* task) {
    ++count;
    task->Run();
  });
  return count;
}

// A call pays for each poll that finds nothing while it waits, so a poll looks
// at as little as it can. In particular not at the connection's state: that
// changes only while something is handled, or by the clock.
inline int SharedPoller::PollUnchecked() {
  may_call_back_ = true;
  int handled = 0;
  if (__builtin_expect(!posted_.empty(), 0)) handled = RunPosted();
  if (__builtin_expect(!callbacks_.empty(), 0)) handled += RunCallbacks();
  if (connection_ != nullptr) {
    in_transport_ = true;
    handled += connection_->poller().PollOnce();
    in_transport_ = false;
  }
  may_call_back_ = false;
  return handled;
}

int SharedPoller::Poll() {
  const int handled = PollUnchecked();
  CheckConnection();
  return handled;
}

bool SharedPoller::PollAndRelease(Waiter* waiter) {
  waiters_.Leave(waiter, /*polls=*/connection_ != nullptr);
  if (connection_ != nullptr) {
    own_ = waiter;
    transport::SpinPolicy::Wait wait(&spin_);
    uint32_t idle_polls = 0;
    while (!waiter->finished() && connection_ != nullptr) {
      if (PollUnchecked() > 0 || waiter->finished()) {
        CheckConnection();
        wait.Found();
        idle_polls = 0;
      } else if (++idle_polls % kPollsPerClock == 0 && !KeepPolling(&wait)) {
        SleepAsHolder(*waiter);
        wait.Woke(absl::Now());
      }
    }
    own_ = nullptr;
  }
  const bool finished = waiter->finished();
  Release();
  return finished;
}

void SharedPoller::Finish(Waiter* waiter) {
  role_.AssertHeld();
  if (waiter == own_) {
    Waiters::FinishOwn(waiter);
  } else {
    waiters_.Finish(waiter);
  }
}

void SharedPoller::ReleaseUnless(bool watched) {
  bool driving;
  bool needs_background;
  while (true) {
    driving = connection_ != nullptr;
    needs_background =
        !callbacks_.empty() || (!watched && owed_callbacks_ > 0 && driving);
    role_.Release();
    if (__builtin_expect(posted_.empty(), 1)) break;
    // Another thread has the role by now, or we do the work.
    if (!role_.TryAcquire()) break;
    RunPosted();
    watched = false;
  }
  if (__builtin_expect(driving && waiters_.any(), 0)) waiters_.WakeOne();
  if (__builtin_expect(needs_background, 0)) background_.Notify();
}

}  // namespace verbena::internal
