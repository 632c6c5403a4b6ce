// The script of a faulty provider: what is to fail, and when.
//
// Everything is counted from 1, from the moment the plan is made: the n-th call
// of a function, the n-th completion that queues hand out, the n-th event of a
// kind. So a program of one thread meets the same faults in every run. The
// faults that were carried out are noted and can be asked for.
//
// Functions are named as in VerbsOps and CmOps, and the data path as in
// ibv_context_ops: post_send, post_recv, post_srq_recv, poll_cq, req_notify_cq.
// A name that verbs and the connection manager share says which is meant:
// "create_qp" is the verb, "cm.create_qp" the connection manager's function.

#ifndef VERBENA_TRANSPORT_FAULTY_FAULT_PLAN_H_
#define VERBENA_TRANSPORT_FAULTY_FAULT_PLAN_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "transport/base/mutex.h"
#include "transport/faulty/real_devices.h"

namespace verbena::transport {

// Thread-safe. A call that is late waits within OnCall(), in the calling
// thread.
class FaultPlan {
 public:
  // Fails nothing until it is told to.
  FaultPlan() = default;
  // Fails about one call in `calls_per_fault` with ENOMEM, of all functions
  // that may fail, and besides what it is told to. The same seed fails the same
  // calls.
  FaultPlan(uint64_t seed, uint32_t calls_per_fault);
  FaultPlan(const FaultPlan&) = delete;
  FaultPlan& operator=(const FaultPlan&) = delete;

  // `count` calls of `function` from the `nth` on fail with `error`; the
  // provider below does not see them. A full queue fails with ENOMEM.
  void FailCall(absl::string_view function, uint64_t nth, int error,
                uint64_t count = 1);
  // From the `nth` call of `function` on the device is gone, as one that the
  // kernel has taken from the process: every verb fails with EIO, and no queue
  // hands out any completion. A verb that destroys does so all the same. The
  // connection manager works on, but for its own cm.create_qp.
  void RemoveDevice(absl::string_view function, uint64_t nth);
  // The `nth` call of `function` returns later by `time`, or as soon as calls
  // are released. A delayed get_cm_event makes an event late.
  void DelayCall(absl::string_view function, uint64_t nth, absl::Duration time);
  void ReleaseCalls();
  // Offers no more than a device with those numbers, which outlive the plan.
  // Before the provider is used.
  void BeDevice(const DeviceNumbers& numbers) { numbers_ = &numbers; }

  // The `nth` completion is never seen.
  void DropCompletion(uint64_t nth);
  // The `nth` completion, and what is behind it in its queue, is seen `polls`
  // polls later, or when the queue is armed: a thread that arms the queue and
  // polls once more, as it must before it sleeps, finds the completion.
  void DelayCompletion(uint64_t nth, uint32_t polls);
  // The `nth` completion reports `status`, and its queue pair is then in the
  // error state.
  void FailCompletion(uint64_t nth, ibv_wc_status status);
  // The `nth` completion says what cannot be.
  enum class Lie : uint8_t {
    kNone,
    kUnknownNumber,     // The number of a work request that was not posted.
    kTwice,             // It is seen twice.
    kTooLong,           // More bytes than any buffer has.
    kOtherOpcode,       // That of a request that was not made.
    kUnknownQueuePair,  // The number of a queue pair that is not there.
  };
  void Misreport(uint64_t nth, Lie lie);
  // The first work request of `opcode` that carries from `least` to `most`
  // bytes carries other bytes than it should: one bit of that at `offset` is
  // another. A SEND or a WRITE takes it along, and it stays so where it was; a
  // READ brings it. What else is planned for such work requests is for those
  // that follow.
  void Damage(ibv_wr_opcode opcode, uint32_t least, uint32_t most,
              uint32_t offset);
  // No queue hands out any completion until they are released.
  void StallCompletions();
  void ReleaseCompletions();

  // The `nth` event of that type is never seen. With a CONNECT_REQUEST its new
  // id is gone, which rejects the peer.
  void DropEvent(rdma_cm_event_type type, uint64_t nth);
  // The `nth` event of `type` is seen as one of type `with`, REJECTED or
  // UNREACHABLE for instance. A CONNECT_REQUEST cannot be replaced, because
  // nobody would own its new id.
  void ReplaceEvent(rdma_cm_event_type type, uint64_t nth,
                    rdma_cm_event_type with, int status);

  // The faults so far, such as "create_cq call 1: errno 12".
  std::vector<std::string> faults() const;
  uint64_t calls(absl::string_view function) const;
  uint64_t completions() const;

  // The rest is for the provider that follows the plan.

  // Counts a call. Returns the errno with which it fails, or 0, after the time
  // by which it is delayed. `may_fail` is false for functions that random
  // faults leave alone, because nobody can go on without them.
  int OnCall(absl::string_view function, bool may_fail);
  bool device_is_gone() const;
  const DeviceNumbers* numbers() const { return numbers_; }
  struct Completion {
    bool drop = false;
    uint32_t delay_polls = 0;
    // Status to report, unless the device reports a failure of its own.
    ibv_wc_status status = IBV_WC_SUCCESS;
    Lie lie = Lie::kNone;
  };
  Completion OnCompletion();
  // The byte of `request` that is damaged; null if none is.
  uint8_t* OnWorkRequest(const ibv_send_wr& request);
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
  struct DamagedRequest {
    ibv_wr_opcode opcode;
    uint32_t least;
    uint32_t most;
    uint32_t offset;
  };
  using EventNumber = std::pair<rdma_cm_event_type, uint64_t>;

  void Note(std::string fault) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const DeviceNumbers* numbers_ = nullptr;
  mutable base::Mutex mutex_;
  base::CondVar released_;  // releases_ has changed.

  // Faults that are planned.
  std::vector<CallFault> call_faults_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Completion> completion_faults_ ABSL_GUARDED_BY(mutex_);
  std::vector<DamagedRequest> damages_ ABSL_GUARDED_BY(mutex_);
  std::map<EventNumber, Event> event_faults_ ABSL_GUARDED_BY(mutex_);
  bool stalled_ ABSL_GUARDED_BY(mutex_) = false;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  const uint32_t calls_per_fault_ = 0;  // 0: no random faults.
  // The call from which on the device is gone; number 0 if there is none.
  std::pair<std::string, uint64_t> removal_ ABSL_GUARDED_BY(mutex_);

  // Calls, completions, events and faults so far.
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, uint64_t, std::less<>> calls_ ABSL_GUARDED_BY(mutex_);
  uint64_t completions_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<rdma_cm_event_type, uint64_t> events_ ABSL_GUARDED_BY(mutex_);
  uint64_t releases_ ABSL_GUARDED_BY(mutex_) = 0;  // Calls of ReleaseCalls().
  std::vector<std::string> faults_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_FAULTY_FAULT_PLAN_H_
