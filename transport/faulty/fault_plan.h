// The script of a faulty provider: what is to fail, and when.
//
// Everything is counted from 1, from the moment the plan is made: the n-th call
// of a function, the n-th completion that queues hand out, the n-th event of a
// kind. So a program of one thread meets the same faults in every run. What was
// done is noted and can be asked for.
//
// Functions are named as in VerbsOps and CmOps, and the data path as in
// ibv_context_ops: post_send, post_recv, post_srq_recv, poll_cq, req_notify_cq.
// Names that verbs and the connection manager share say which: "create_qp" is
// the verb, "cm.create_qp" the connection manager's.

#ifndef VERBENA_TRANSPORT_FAULTY_FAULT_PLAN_H_
#define VERBENA_TRANSPORT_FAULTY_FAULT_PLAN_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace verbena::transport {

// Any thread.
class FaultPlan {
 public:
  // Fails nothing until it is told to.
  FaultPlan() = default;
  // Besides, fails about one in `calls_per_fault` calls that may fail, of
  // whatever function, with ENOMEM. The same seed fails the same calls.
  FaultPlan(uint64_t seed, uint32_t calls_per_fault);
  FaultPlan(const FaultPlan&) = delete;
  FaultPlan& operator=(const FaultPlan&) = delete;

  // `count` calls of `function` from the `nth` on fail with `error`; the
  // provider below does not see them. A queue that is full: ENOMEM.
  void FailCall(absl::string_view function, uint64_t nth, int error,
                uint64_t count = 1);
  // The `nth` call takes so much longer, or until calls are released. Of
  // get_cm_event: the event is late.
  void DelayCall(absl::string_view function, uint64_t nth, absl::Duration time);
  void ReleaseCalls();

  // The `nth` completion is never seen.
  void DropCompletion(uint64_t nth);
  // It, and what is behind it in its queue, are seen `polls` polls later, or
  // when the queue is armed: whoever arms it and polls once more, as one must
  // before one sleeps, finds it.
  void DelayCompletion(uint64_t nth, uint32_t polls);
  // It says `status`, and its queue pair is in the error state.
  void FailCompletion(uint64_t nth, ibv_wc_status status);
  // No queue hands out anything until they are released.
  void StallCompletions();
  void ReleaseCompletions();

  // The `nth` event of that type is never seen. With a CONNECT_REQUEST its new
  // id is gone, which rejects the peer.
  void DropEvent(rdma_cm_event_type type, uint64_t nth);
  // It is seen as another one, REJECTED or UNREACHABLE for instance. Not a
  // CONNECT_REQUEST, whose new id would be nobody's.
  void ReplaceEvent(rdma_cm_event_type type, uint64_t nth,
                    rdma_cm_event_type with, int status);

  // What was done so far: "create_cq call 1: errno 12".
  std::vector<std::string> faults() const;
  uint64_t calls(absl::string_view function) const;
  uint64_t completions() const;

  // For the provider. The errno with which this call fails, 0 if it does not;
  // takes the time that a delayed call takes. `may_fail` is false for functions
  // that random faults leave alone, because nobody can go on without them.
  int OnCall(absl::string_view function, bool may_fail);
  struct Completion {
    bool drop = false;
    uint32_t delay_polls = 0;
    ibv_wc_status status = IBV_WC_SUCCESS;  // Else what it is to say.
  };
  Completion OnCompletion();
  bool completions_are_stalled() const;
  struct Event {
    bool drop = false;
    std::optional<std::pair<rdma_cm_event_type, int>> replacement;
  };
  Event OnEvent(rdma_cm_event_type type);

 private:
  struct CallFault {
    std::string function;
    uint64_t first;
    uint64_t last;
    int error;
    absl::Duration delay;
  };
  using EventNumber = std::pair<rdma_cm_event_type, uint64_t>;

  void Note(std::string fault);

  mutable std::mutex mutex_;  // Guards all that follows.
  std::vector<CallFault> call_faults_;
  std::map<uint64_t, Completion> completion_faults_;
  std::map<EventNumber, Event> event_faults_;
  std::map<std::string, uint64_t, std::less<>> calls_;
  uint64_t completions_ = 0;
  std::map<rdma_cm_event_type, uint64_t> events_;
  bool stalled_ = false;
  uint64_t releases_ = 0;
  std::condition_variable released_;  // releases_ has changed.
  std::vector<std::string> faults_;
  std::mt19937_64 random_;
  uint32_t calls_per_fault_ = 0;  // 0: no random faults.
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_FAULTY_FAULT_PLAN_H_
