// Completion queues.

#ifndef VERBENA_TRANSPORT_SOFT_QUEUES_COMPLETION_QUEUE_H_
#define VERBENA_TRANSPORT_SOFT_QUEUES_COMPLETION_QUEUE_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "transport/soft/base/biased_lock.h"
#include "transport/soft/base/event_queue.h"
#include "transport/soft/device/context.h"
#include "transport/soft/queues/completion.h"
#include "transport/soft/queues/completion_channel.h"
#include "transport/soft/queues/completion_ring.h"
#include "transport/soft/queues/polled_queue_pairs.h"
#include "transport/soft/queues/verbs_handle.h"

namespace verbena::soft {

// A completion queue. Polling it runs the queue pairs attached to it.
//
// The context and the channel outlive it, and it outlives its queue pairs.
// Thread-safe. When a completion finds it full, the queue fails for good: an
// asynchronous event IBV_EVENT_CQ_ERR, every attached queue pair enters ERR,
// and Poll() answers -EIO once the completions before have been taken.
class CompletionQueue final : public CompletionQueueHandle {
 public:
  CompletionQueue(Context& context, int cqe, void* cq_context,
                  CompletionChannel* channel);
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;
  ~CompletionQueue();

  static CompletionQueue* From(ibv_cq* cq) {
    return static_cast<CompletionQueue*>(cq);
  }

  // The verbs poll_cq and req_notify_cq. To poll for no completions runs the
  // queue pairs and takes nothing.
  int Poll(int count, ibv_wc* completions);
  int Arm(bool solicited_only);

  // The verb resize_cq. False when more completions than that are waiting.
  bool Resize(uint32_t capacity);

  // For extended queues, see extended_completion_queue.h. The two that change
  // what the queue does are called before its first use.

  // Notes when each completion comes.
  void NoteTimes();
  // When it is full, a completion takes the place of the oldest instead.
  void IgnoreOverruns() { ignores_overruns_ = true; }
  // Does as Poll(1, &completion), and returns the time of the completion in
  // `time`, if times are noted.
  int PollOne(ibv_wc& completion, CompletionTime& time);

  // A fault for tests: fails now, as if a completion had found it full.
  void Exhaust();

  // For queue pairs.

  void Push(const Completion& completion);
  // A queue pair whose two queues are the same one attaches once.
  void Attach(QueuePair* qp) { queue_pairs_.Add(qp); }
  // Afterwards no poll runs `qp`, and none of its completions is left.
  void Detach(QueuePair* qp);
  // Drops the completions of `qp`.
  void Purge(const QueuePair* qp);
  PolledQueuePairs& queue_pairs() { return queue_pairs_; }

  bool armed() const {
    return armed_.load(std::memory_order_relaxed) > Armed::kNoButTimed;
  }
  // Whether a thread waits at the channel for a completion of this queue.
  // kForAny: it waits, or is about to, for any completion that comes. kNotNow:
  // it does not, and will arm the queue before it does. kOther: neither can be
  // counted on, so it is for the engine to look for completions.
  enum class Wait { kForAny, kNotNow, kOther };
  Wait wait() const {
    if (channel_ == nullptr || notes_times_) return Wait::kOther;
    switch (armed_.load(std::memory_order_relaxed)) {
      case Armed::kAny:
        return Wait::kForAny;
      case Armed::kNo:
        return Wait::kNotNow;
      default:
        return Wait::kOther;
    }
  }
  CompletionChannel* channel_or_null() { return channel_; }
  bool failed() const { return failed_.load(std::memory_order_relaxed); }

  // Acknowledgements by the user of the two kinds of event.
  void AcknowledgeCompletionEvents(unsigned int count);
  EventQueue::Source& async_source() { return async_source_; }

 private:
  // kNoButTimed stands for kNo when times are noted, so that a queue that does
  // not note them pays nothing for those that do.
  enum class Armed : uint8_t { kNo, kNoButTimed, kSolicited, kAny };

  // True at some of its calls, even if many completions wait: then the caller
  // runs the protocol all the same.
  bool LongBacklog();
  // How many completions wait, as it is seen without the lock.
  uint32_t waiting() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return ring_.size();
  }
  int PopLocked(int count, ibv_wc* completions)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_lock_);
  // Drops the oldest completion if overruns are ignored; false if they are not.
  bool MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_lock_);
  // A completion has come, and the queue is armed or notes times. Returns
  // whether it raises an event.
  bool NoteArrival(uint32_t index, const Completion& completion)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_lock_);
  void Fail() ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_lock_);
  void RaiseEvent();

  Context& context_;
  CompletionChannel* const channel_;  // Null for a queue that raises no events.
  EventQueue::Source channel_source_;
  EventQueue::Source async_source_;
  bool ignores_overruns_ = false;  // Constant after the first use.

  PolledQueuePairs queue_pairs_;

  std::atomic<uint32_t> backlog_polls_{0};  // A lost count does no harm.
  // These two are written with queue_lock_ held.
  std::atomic<Armed> armed_{Armed::kNo};
  std::atomic<bool> failed_{false};

  // Taken after any queue pair's lock.
  BiasedLock queue_lock_;
  CompletionRing ring_ ABSL_GUARDED_BY(queue_lock_);
  bool notes_times_ = false;  // Constant after the first use.
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_QUEUES_COMPLETION_QUEUE_H_
