// Completion queues and their channels.

#ifndef VERBENA_TRANSPORT_SOFT_QUEUES_COMPLETION_QUEUE_H_
#define VERBENA_TRANSPORT_SOFT_QUEUES_COMPLETION_QUEUE_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "transport/soft/base/biased_lock.h"
#include "transport/soft/base/event_queue.h"
#include "transport/soft/device/context.h"
#include "transport/soft/queues/verbs_handle.h"

namespace verbena::soft {

class DatagramQueuePair;
class QueuePair;
struct ExtendedPoll;

// A completion channel. Thread-safe.
class CompletionChannel final : public ibv_comp_channel {
 public:
  // Null, with errno, when the process is out of descriptors.
  static std::unique_ptr<CompletionChannel> Create(Context& context);

  static CompletionChannel* From(ibv_comp_channel* channel) {
    return static_cast<CompletionChannel*>(channel);
  }

  EventQueue& events() { return *events_; }
  std::atomic<int>& children() { return children_; }  // Completion queues.

 private:
  CompletionChannel(Context& context, std::unique_ptr<EventQueue> events);

  const std::unique_ptr<EventQueue> events_;
  std::atomic<int> children_{0};
};

// What ibv_wc says, and what the queue has to know besides.
struct Completion {
  uint64_t wr_id;
  ibv_qp* qp;  // A QueuePair, or a DatagramQueuePair.
  uint32_t byte_len;
  uint32_t immediate;
  union {
    // Of a request to send: taking its completion frees the slots of those
    // before this one.
    uint32_t sent_up_to;
    // Of a datagram received: the number of the sender, and above it the
    // service level.
    uint32_t sender;
  };
  uint8_t status;
  uint8_t opcode;
  uint8_t flags;
  // Whether it raises an event of a queue armed for solicited ones only.
  bool solicited;

  void SetSender(uint32_t qp_num, uint8_t service_level) {
    sender = qp_num | uint32_t{service_level} << 24;
  }
};
static_assert(sizeof(Completion) == 32);
// So that making a queue does not touch its memory.
static_assert(std::is_trivially_default_constructible_v<Completion>);
static_assert(IBV_WC_RECV_RDMA_WITH_IMM <= 0xff);

// When a completion came.
struct CompletionTime {
  uint64_t clock;         // ClockNow().
  uint64_t wallclock_ns;  // Since 1970.
};

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

  // ibv_resize_cq; false when more completions than that are waiting.
  bool Resize(uint32_t capacity);
  // For extended queues, see extended_completion_queue.h. The two that change
  // what the queue does are called before its first use.

  // Notes when each completion comes.
  void NoteTimes();
  // When it is full, a completion takes the place of the oldest instead.
  void IgnoreOverruns() { ignores_overruns_ = true; }
  // As Poll(1, &completion), with the time of the completion, if noted.
  int PollOne(ibv_wc& completion, CompletionTime& time);
  std::unique_ptr<ExtendedPoll>& extended_poll() { return extended_poll_; }

  // A fault for tests: fails now, as if a completion had found it full.
  void Exhaust();

  // For queue pairs.

  void Push(const Completion& completion);

  // A queue pair whose two queues are the same one attaches once.
  void Attach(QueuePair* qp);
  void Attach(DatagramQueuePair* qp);
  // Afterwards no poll runs `qp`, and none of its completions is left.
  void Detach(QueuePair* qp);
  void Detach(DatagramQueuePair* qp);
  // Drops the completions of `qp`.
  void Purge(ibv_qp* qp);
  bool has_queue_pairs();

  // Parking: a queue pair that has been silent for long, among many, is not
  // looked at by every poll any more. Its peer rings the doorbell instead.

  // Whether there are so many that it pays.
  bool crowded() const {
    return members_count_.load(std::memory_order_relaxed) > kMembersPolled;
  }
  // Polls do not run `qp` until it returns. REQUIRES: polling_lock() is held,
  // and the lock of `qp`; it has gone to sleep and looked once more.
  void Park(QueuePair* qp);
  // The next poll runs `qp` again, if it was parked. From any thread, with any
  // lock held.
  void Return(QueuePair* qp);
  // Held while queue pairs are polled. Taken before any queue pair's lock.
  BiasedLock& polling_lock() { return polling_lock_; }

  bool armed() const {
    return armed_.load(std::memory_order_relaxed) > Armed::kNoButTimed;
  }
  bool failed() const { return failed_.load(std::memory_order_relaxed); }

  // Acknowledgements by the user of the two kinds of event.
  void AcknowledgeCompletionEvents(unsigned int count);
  EventQueue::Source& channel_source() { return channel_source_; }
  EventQueue::Source& async_source() { return async_source_; }

 private:
  // kNoButTimed stands for kNo when times are noted, so that a queue that does
  // not pays nothing for it.
  enum class Armed : uint8_t { kNo, kNoButTimed, kSolicited, kAny };

  // Few members are not worth parking: a look at one costs some 10 ns.
  static constexpr uint32_t kMembersPolled = 8;

  void RunQueuePairs();
  void TakeBack();  // REQUIRES: polling_lock_ is held.
  bool LongBacklog();
  int Pop(int count, ibv_wc* completions);
  static void OnSendPolled(const Completion& completion);
  static void FillDatagramFields(const Completion& from, ibv_wc& to);
  // REQUIRES: queue_lock_ is held, here and below.
  int PopLocked(int count, ibv_wc* completions);
  bool LoseOldest();
  // A completion has come while the queue was armed, or notes times; whether it
  // raises an event.
  bool NoteArrival(uint32_t index);
  void NoteTime(uint32_t index);
  void Fail();
  void RaiseEvent();

  Context& context_;
  CompletionChannel* const channel_;  // Null for a queue that raises no events.
  EventQueue::Source channel_source_;
  EventQueue::Source async_source_;
  bool ignores_overruns_ = false;  // Constant after the first use.
  std::unique_ptr<ExtendedPoll> extended_poll_;  // Null unless extended.

  BiasedLock polling_lock_;
  // Protected by polling_lock_: all queue pairs, and those not parked.
  std::vector<QueuePair*> members_;
  std::vector<QueuePair*> polled_;
  std::vector<DatagramQueuePair*> datagram_members_;  // Likewise.
  std::atomic<uint32_t> members_count_{0};
  // A list of those that are to be polled again.
  std::atomic<QueuePair*> returning_{nullptr};

  std::atomic<uint32_t> size_{0};           // Completions in the queue.
  std::atomic<uint32_t> backlog_polls_{0};  // A lost count does no harm.
  std::atomic<Armed> armed_{Armed::kNo};    // Written under queue_lock_.
  std::atomic<bool> failed_{false};         // Likewise.

  // Taken after any queue pair's lock.
  BiasedLock queue_lock_;
  // State below is protected by queue_lock_.
  uint32_t capacity_;
  // Pages of it that were never used cost nothing.
  std::unique_ptr<Completion[]> ring_;
  uint32_t head_ = 0;  // Index of the oldest.
  // Of the completions in ring_; null when times are not noted.
  std::unique_ptr<CompletionTime[]> times_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_QUEUES_COMPLETION_QUEUE_H_
