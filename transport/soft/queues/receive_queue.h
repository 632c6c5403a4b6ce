// Posted receive requests: the queue of one queue pair, and the shared one.

#ifndef VERBENA_TRANSPORT_SOFT_QUEUES_RECEIVE_QUEUE_H_
#define VERBENA_TRANSPORT_SOFT_QUEUES_RECEIVE_QUEUE_H_

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "transport/soft/base/biased_lock.h"
#include "transport/soft/base/limits.h"
#include "transport/soft/base/live_handles.h"
#include "transport/soft/device/context.h"

namespace verbena::soft {

// A receive request that has been taken from its queue.
struct ReceiveRequest {
  uint64_t wr_id = 0;
  int entry_count = 0;
  std::array<ibv_sge, kGatherEntriesMax> entries;
};

// A bounded first-in first-out queue of receive requests. Allocates only when
// it is created or resized. Not thread-safe.
class ReceiveQueue {
 public:
  ReceiveQueue(uint32_t requests_max, uint32_t entries_max);

  // Copies the chain at `wr`. Returns 0, or ENOMEM (full) or EINVAL (too many
  // entries) with `*bad_wr` at the first request that was not posted.
  int Post(ibv_recv_wr* wr, ibv_recv_wr** bad_wr);

  // Takes the oldest request; false when there is none.
  bool Take(ReceiveRequest& request);

  // Changes the depth; false when more requests than that are posted.
  // Allocates.
  bool Resize(uint32_t requests_max);

  void Clear() { head_ = tail_; }
  uint32_t size() const { return tail_ - head_; }
  uint32_t requests_max() const { return requests_max_; }
  uint32_t entries_max() const { return entries_max_; }

 private:
  struct Slot {
    uint64_t wr_id;
    int entry_count;
  };

  uint32_t requests_max_;
  uint32_t entries_max_;
  // The number of slots less one. It is a power of two, at least requests_max_,
  // so that the slot of a request is its number under this mask.
  uint32_t mask_;
  // Not cleared when made: what was never used costs no memory.
  std::unique_ptr<Slot[]> slots_;
  std::unique_ptr<ibv_sge[]> entries_;  // entries_max_ for each slot.
  uint32_t head_ = 0;                   // Requests taken so far.
  uint32_t tail_ = 0;                   // Requests posted so far.
};

// A shared receive queue. The context and the protection domain outlive it, and
// it outlives its queue pairs. Thread-safe.
class SharedReceiveQueue final : public ibv_srq {
 public:
  SharedReceiveQueue(ProtectionDomain& domain,
                     const ibv_srq_init_attr& attributes);
  SharedReceiveQueue(const SharedReceiveQueue&) = delete;
  SharedReceiveQueue& operator=(const SharedReceiveQueue&) = delete;
  ~SharedReceiveQueue();

  static SharedReceiveQueue* From(ibv_srq* srq) {
    return static_cast<SharedReceiveQueue*>(srq);
  }

  // The verbs of these names.
  int Post(ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
  int Modify(const ibv_srq_attr& attributes, int mask);
  void Query(ibv_srq_attr& attributes);

  // Takes the oldest request; false when there is none. Raises the limit event
  // when fewer than the limit are left.
  bool Take(ReceiveRequest& request);

  // The protection domain of the memory that its requests name.
  const ProtectionDomain* domain() const { return domain_; }

  EventQueue::Source& async_source() { return async_source_; }
  std::atomic<int>& children() { return children_; }  // Queue pairs.

 private:
  void RaiseLimitEvent();

  const LiveHandle<ibv_srq> live_{this};
  const ProtectionDomain* const domain_;
  EventQueue::Source async_source_;
  std::atomic<int> children_{0};

  // Taken after any queue pair's lock.
  BiasedLock lock_;
  ReceiveQueue queue_ ABSL_GUARDED_BY(lock_);
  // When fewer requests than this are left, an event is raised; 0 for none.
  uint32_t limit_ ABSL_GUARDED_BY(lock_) = 0;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_QUEUES_RECEIVE_QUEUE_H_
