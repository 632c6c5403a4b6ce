// The state that the functions of a faulty provider share: the provider that
// they wrap, the plan, and the objects that were made through them.

#ifndef VERBENA_TRANSPORT_FAULTY_FAULTY_STATE_H_
#define VERBENA_TRANSPORT_FAULTY_FAULTY_STATE_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "transport/base/mutex.h"
#include "transport/faulty/fault_plan.h"
#include "transport/verbs/provider.h"

namespace verbena::transport {

// Thread-safe.
class FaultyState {
 public:
  // The only one of the process, because a table of plain functions cannot
  // carry a context.
  static FaultyState& Get();

  // Null when there is no faulty provider.
  void Set(const Provider* base, FaultPlan* plan);
  const Provider& base();

  // Asks the plan, if there is one: see FaultPlan.
  int OnCall(absl::string_view function, bool may_fail);
  bool DeviceIsGone();
  // As OnCall(), for a verb: returns EIO, too, once the device is gone.
  int OnVerb(absl::string_view function, bool may_fail);
  // See FaultPlan::BeDevice(). Null if nothing is to be limited.
  const DeviceNumbers* Numbers();
  FaultPlan::Event OnEvent(rdma_cm_event_type type);
  // Damages what the plan says of a chain of work requests that is about to be
  // posted, or will when it is done.
  void OnPostSend(const ibv_qp* qp, const ibv_send_wr* request);

  // Leads the data path of `context` through `replacement` from now on.
  void Patch(ibv_context* context, const ibv_context_ops& replacement);
  // Gives `context`, which is about to be closed, its own data path back.
  void Forget(ibv_context* context);
  // The data path that `context` had before. REQUIRES: it was patched.
  ibv_context_ops Original(const ibv_context* context);

  // The objects made through the faulty table and not ended. Disown() returns
  // whether `object` was one.
  void Own(const void* object);
  void OwnQueuePair(ibv_qp* qp);
  bool Disown(const void* object);
  bool Owns(const void* object);
  size_t owned();

  // Does to the completions that the device reports on `cq` what the plan says,
  // and hands out at most `count` of those that are due. Returns how many.
  int Filter(ibv_cq* cq, int count, const ibv_wc* reported, int reported_count,
             ibv_wc* out);
  // Makes the next poll of `cq` hand out the completions that are late.
  void EndDelays(const ibv_cq* cq);

 private:
  // A completion that the device has reported and nobody has seen yet.
  struct Held {
    ibv_wc completion;
    uint32_t polls_left;
  };

  // Puts a queue pair into the error state, where a device leaves it when it
  // has reported an error.
  void Break(uint32_t qp_num) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  base::Mutex mutex_;
  const Provider* base_ ABSL_GUARDED_BY(mutex_) = nullptr;
  FaultPlan* plan_ ABSL_GUARDED_BY(mutex_) = nullptr;

  // The data paths that were patched, as they were before.
  std::map<const ibv_context*, ibv_context_ops> originals_
      ABSL_GUARDED_BY(mutex_);

  // Every object made through the faulty table, and the queue pairs again by
  // their numbers, which is all that a completion names.
  std::set<const void*> owned_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, ibv_qp*> queue_pairs_ ABSL_GUARDED_BY(mutex_);

  // Completions that the device has reported and nobody has seen yet.
  std::map<const ibv_cq*, std::deque<Held>> held_ ABSL_GUARDED_BY(mutex_);

  // The byte that the READ of that number, of that queue pair, damages.
  std::map<std::pair<uint32_t, uint64_t>, uint8_t*> damaged_reads_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_FAULTY_FAULTY_STATE_H_
