// Where a queue pair takes its receives from.

#ifndef VERBENA_TRANSPORT_SOFT_QUEUES_RECEIVE_SOURCE_H_
#define VERBENA_TRANSPORT_SOFT_QUEUES_RECEIVE_SOURCE_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>

#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/soft/device/context.h"
#include "transport/soft/queues/receive_queue.h"

namespace verbena::soft {

// The queue from which a queue pair takes its receives: its own, or a shared
// one, which outlives it.
//
// Tests withhold what is posted there; see soft_faults.h. The pointers that
// Take() follows then lead to an empty queue, so that the data path does not
// pay for the possibility.
//
// Protected by the lock of the queue pair, except Withhold().
class ReceiveSource {
 public:
  ReceiveSource(ProtectionDomain& domain, const ibv_qp_init_attr& attributes);
  ReceiveSource(const ReceiveSource&) = delete;
  ReceiveSource& operator=(const ReceiveSource&) = delete;

  // Takes the oldest request; false when there is none.
  bool Take(ReceiveRequest& request) {
    SharedReceiveQueue* const shared = shared_.load(std::memory_order_relaxed);
    const bool taken =
        shared != nullptr
            ? shared->Take(request)
            : unshared_.load(std::memory_order_relaxed)->Take(request);
    if (ABSL_PREDICT_FALSE(!taken)) {
      OnNothing();
    }
    return taken;
  }

  // The queue pair's own queue, whatever is withheld. With a shared queue it is
  // not used.
  ReceiveQueue& own() { return own_; }

  // The protection domain of the memory that the requests name.
  const ProtectionDomain* domain() const { return domain_; }

  // Acts as if nothing were posted, for the next `times` that a request is
  // wanted: UINT32_MAX for all of them, 0 to end it. May be called on any
  // thread.
  void Withhold(uint32_t times);

 private:
  void OnNothing();
  void Lead(bool to_nothing) ABSL_EXCLUSIVE_LOCKS_REQUIRED(withheld_mutex_);

  SharedReceiveQueue* const srq_;  // Null without a shared queue.
  const ProtectionDomain* const domain_;
  // The pointers that Take() follows: srq_ and &own_ or, while requests are
  // withheld, null and &nothing_.
  std::atomic<SharedReceiveQueue*> shared_;
  std::atomic<ReceiveQueue*> unshared_;
  ReceiveQueue own_;

  ReceiveQueue nothing_;
  base::Mutex withheld_mutex_;
  uint32_t times_withheld_ ABSL_GUARDED_BY(withheld_mutex_) = 0;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_QUEUES_RECEIVE_SOURCE_H_
