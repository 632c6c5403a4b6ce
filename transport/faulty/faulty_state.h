// What the functions of a faulty provider share: whom they wrap, the plan, and
// which objects are theirs.

#ifndef VERBENA_TRANSPORT_FAULTY_FAULTY_STATE_H_
#define VERBENA_TRANSPORT_FAULTY_FAULTY_STATE_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "absl/strings/string_view.h"
#include "transport/faulty/fault_plan.h"
#include "transport/verbs/provider.h"

namespace verbena::transport {

// Any thread.
class FaultyState {
 public:
  // The one there is: a table of plain functions has no place for a context.
  static FaultyState& Get();

  // Null when there is no faulty provider.
  void Set(const Provider* base, FaultPlan* plan);
  const Provider& base();

  // As FaultPlan::OnCall.
  int OnCall(absl::string_view function, bool may_fail);
  FaultPlan::Event OnEvent(rdma_cm_event_type type);

  // The context's data path leads through `replacement` from now on.
  void Patch(ibv_context* context, const ibv_context_ops& replacement);
  // It is closed.
  void Forget(ibv_context* context);
  // What was there before. REQUIRES: it was patched.
  ibv_context_ops Original(const ibv_context* context);

  // What was made through the faulty table and not ended.
  void Own(const void* object);
  void OwnQueuePair(ibv_qp* qp);
  bool Disown(const void* object);
  bool Owns(const void* object);
  size_t owned();

  // Puts what the device reports on `cq` through the plan; hands out at most
  // `count` of what is due.
  int Filter(ibv_cq* cq, int count, const ibv_wc* reported, int reported_count,
             ibv_wc* out);
  // The next poll of `cq` hands out what is late.
  void EndDelays(const ibv_cq* cq);

 private:
  struct Held {
    ibv_wc completion;
    uint32_t polls_left;
  };

  void Break(uint32_t qp_num);

  std::mutex mutex_;  // Guards all that follows.
  const Provider* base_ = nullptr;
  FaultPlan* plan_ = nullptr;
  std::map<const ibv_context*, ibv_context_ops> originals_;
  std::set<const void*> owned_;
  std::map<uint32_t, ibv_qp*> queue_pairs_;
  std::map<const ibv_cq*, std::deque<Held>> held_;
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_FAULTY_FAULTY_STATE_H_
