#include <cstdint>

#include "absl/base/optimization.h"
#include "rpc/internal/client/shared_poller.h"
#include "transport/base/clock.h"

namespace verbena::internal {
namespace {

// Polls that find nothing between two looks at the clock.
constexpr uint32_t kPollsPerClock = 64;

}  // namespace

// Runs the task here if the ownership is free. Otherwise leaves it to the
// owner.
bool SharedPoller::Post(transport::Task* task) {
  if (ABSL_PREDICT_FALSE(!ownership_.TryAcquire())) {
    transport_.Post(task);
    // The owner may have left between the first try and the post, and may not
    // have seen the task. A second try finds that out.
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

// Polls until the call has ended, reads the clock only in polls that find
// nothing, and sleeps when spinning does not pay.
void SharedPoller::PollAndRelease(Waiter* waiter) {
  // While the waiter is in the list, WakeOne() would spend a wake-up on this
  // thread.
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
    // Nobody else looks at the waiter of the polling thread, so no atomic
    // exchange is needed.
    Waiters::FinishOwn(waiter);
  } else {
    waiters_.Finish(waiter);
  }
}

// Releases first and looks for work afterwards, as Ownership demands. A task
// that was posted in between is run here, unless another thread has the
// ownership.
void SharedPoller::ReleaseUnless(bool watched) {
  bool notify;
  while (true) {
    // Read while the ownership is held: pending_ belongs to the next owner
    // afterwards.
    notify = !watched && pending_ > 0;
    ownership_.Release();
    if (ABSL_PREDICT_TRUE(!transport_.any_posted())) break;
    // Another thread has the ownership by now, or we do the work.
    if (!ownership_.TryAcquire()) break;
    transport_.RunPosted();
    // The tasks may have begun something that the background thread has not
    // seen.
    watched = false;
  }
  // A thread that waits for its call polls for all others, too.
  if (ABSL_PREDICT_FALSE(waiters_.any())) waiters_.WakeOne();
  if (ABSL_PREDICT_FALSE(notify)) background_.Notify();
}

}  // namespace verbena::internal
