#include "transport/soft/queues/completion_queue.h"

#include "transport/base/check.h"
#include "transport/soft/base/clock.h"
#include "transport/soft/device/soft_device.h"

namespace verbena::soft {

CompletionQueue::CompletionQueue(Context& owner, int capacity,
                                 void* user_context,
                                 CompletionChannel* event_channel)
    : context_(owner),
      channel_(event_channel),
      ring_(static_cast<uint32_t>(capacity)) {
  context = owner.handle();
  channel = event_channel;
  cq_context = user_context;
  cqe = capacity;
  if (channel_ != nullptr) channel_->Add(this);
}

CompletionQueue::~CompletionQueue() {
  CHECK(queue_pairs_.empty()) << "a queue pair still uses the completion queue";
  if (channel_ != nullptr) {
    channel_->Remove(this);
    channel_->events().Forget(channel_source_);
  }
  // The user may still hold events of the queue, which are waited for.
  context_.async_events().Forget(async_source_);
}

int CompletionQueue::Arm(bool solicited_only) {
  // Without a channel there is nobody to tell, as on any device.
  if (channel_ == nullptr) return 0;
  {
    BiasedLock::Guard lock(queue_lock_);
    // A queue that is armed for any completion stays so: a request for
    // solicited ones does not take that back.
    if (!solicited_only) {
      armed_.store(Armed::kAny, std::memory_order_relaxed);
    } else if (!armed()) {
      armed_.store(Armed::kSolicited, std::memory_order_relaxed);
    }
  }
  // The user may block from now on, so peers must ring. What they sent before
  // they knew is found by this, and raises the event that was just asked for.
  queue_pairs_.PrepareToSleep();
  return 0;
}

void CompletionQueue::Detach(QueuePair* qp) {
  queue_pairs_.Remove(qp);
  Purge(qp);
}

void CompletionQueue::Purge(const QueuePair* qp) {
  BiasedLock::Guard lock(queue_lock_);
  ring_.Purge(qp);
}

bool CompletionQueue::Resize(uint32_t capacity) {
  BiasedLock::Guard lock(queue_lock_);
  if (!ring_.Resize(capacity)) return false;
  cqe = static_cast<int>(capacity);
  return true;
}

void CompletionQueue::AcknowledgeCompletionEvents(unsigned int count) {
  // A queue without a channel has raised no events, so `count` is 0.
  if (count == 0) return;
  channel_->events().Acknowledge(channel_source_, count);
}

void CompletionQueue::NoteTimes() {
  BiasedLock::Guard lock(queue_lock_);
  notes_times_ = true;
  ring_.KeepTimes();
  armed_.store(Armed::kNoButTimed, std::memory_order_relaxed);
}

// The completion that goes frees no slots of its send queue. The next one of
// that queue frees them, because it covers all requests before it.
bool CompletionQueue::MakeRoom() {
  if (!ignores_overruns_ || failed()) return false;
  ring_.Pop(1, [](uint32_t, const Completion&) {});
  return true;
}

// A queue that is armed for solicited completions raises an event for errors
// too, as req_notify_cq has it. An event takes the arming back.
bool CompletionQueue::NoteArrival(uint32_t index,
                                  const Completion& completion) {
  if (notes_times_) ring_.SetTime(index, {ClockNow(), WallclockNow()});
  // Relaxed, because queue_lock_ is held whenever armed_ is written.
  const Armed armed = armed_.load(std::memory_order_relaxed);
  if (armed == Armed::kNoButTimed) return false;
  if (armed == Armed::kSolicited && !completion.solicited &&
      completion.status == IBV_WC_SUCCESS) {
    return false;
  }
  armed_.store(notes_times_ ? Armed::kNoButTimed : Armed::kNo,
               std::memory_order_relaxed);
  return true;
}

// Raises the event once. The queue pairs see failed() when they next run, which
// the engine has them do.
void CompletionQueue::Fail() {
  // Relaxed, because KickAll() releases it to the engine's thread.
  if (failed_.exchange(true, std::memory_order_relaxed)) return;
  context_.async_events().Raise(
      {&async_source_, static_cast<ibv_cq*>(this), IBV_EVENT_CQ_ERR});
  context_.soft_device().engine().KickAll();
}

void CompletionQueue::Exhaust() {
  BiasedLock::Guard lock(queue_lock_);
  Fail();
}

void CompletionQueue::RaiseEvent() {
  channel_->events().Raise({&channel_source_, static_cast<ibv_cq*>(this), 0});
}

}  // namespace verbena::soft
