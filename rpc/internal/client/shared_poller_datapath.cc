#include <cstdint>

#include "absl/base/optimization.h"
#include "rpc/internal/client/shared_poller.h"
#include "transport/base/clock.h"

namespace verbena::internal {
namespace {

// Polls that find nothing between two looks at the clock.
constexpr uint32_t kPollsPerClock = 64;

}  // namespace

bool SharedPoller::Post(transport::Task* task) {
  if (ABSL_PREDICT_FALSE(!ownership_.TryAcquire())) {
    transport_.Post(task);
    if (!ownership_.TryAcquire()) return false;
    transport_.RunPosted();
    return true;
  }
  // `task` need not go through the queue, but must run after the tasks that are
  // in it.
  if (ABSL_PREDICT_FALSE(transport_.any_posted())) transport_.RunPosted();
  task->Run();
  return true;
}

void SharedPoller::PollAndRelease(Waiter* waiter) {
  waiters_.Leave(waiter);
  own_ = waiter;
  transport::SpinPolicy::Wait wait(&spin_);
  uint32_t idle_polls = 0;
  while (!waiter->finished()) {
    if (transport_.PollOnce() > 0) {
      wait.Found();
      idle_polls = 0;
    } else if (++idle_polls % kPollsPerClock == 0 && !KeepPolling(&wait)) {
      SleepAsHolder(*waiter);
      wait.Woke(base::Now());
    }
  }
  own_ = nullptr;
  Release();
}

void SharedPoller::Finish(Waiter* waiter) {
  ownership_.AssertHeld();
  if (waiter == own_) {
    Waiters::FinishOwn(waiter);
  } else {
    waiters_.Finish(waiter);
  }
}

void SharedPoller::ReleaseUnless(bool watched) {
  bool notify;
  while (true) {
    notify = !watched && pending_ > 0;
    ownership_.Release();
    if (ABSL_PREDICT_TRUE(!transport_.any_posted())) break;
    // Another thread has the ownership by now, or we do the work.
    if (!ownership_.TryAcquire()) break;
    transport_.RunPosted();
    watched = false;
  }
  if (ABSL_PREDICT_FALSE(waiters_.any())) waiters_.WakeOne();
  if (ABSL_PREDICT_FALSE(notify)) background_.Notify();
}

}  // namespace verbena::internal
