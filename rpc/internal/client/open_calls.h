// The open calls of a channel: those that wait for a connection, and how
// calls end.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_OPEN_CALLS_H_
#define VERBENA_RPC_INTERNAL_CLIENT_OPEN_CALLS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rpc/internal/client/interception.h"
#include "rpc/internal/client/open_call.h"
#include "rpc/internal/client/poller_timer.h"
#include "rpc/internal/client/reply_sizes.h"
#include "rpc/internal/client/retries.h"
#include "rpc/internal/client/server_set.h"
#include "rpc/internal/client/shared_poller.h"
#include "rpc/internal/metrics/call_sampler.h"
#include "rpc/internal/metrics/channel_methods.h"
#include "rpc/internal/service/service_config.h"
#include "rpc/metrics.h"
#include "transport/base/counter.h"
#include "transport/base/intrusive_list.h"
#include "transport/polling/ownership.h"
#include "transport/polling/poller_threads.h"
#include "transport/polling/task.h"

namespace verbena::internal {

// Takes each call of a channel from its start to its report: puts it on a
// connection, or has it wait for one, and when it has ended tells the waiting
// thread, or has the callback called by the background thread.
//
// Only this class asks for a call's connection: see ServerSet::Pick().
//
// All functions are called with the poller's ownership held, unless their
// comment says otherwise.
class OpenCalls {
 public:
  // All must outlive this. `interceptors` may be null. `timer` leads to
  // ExpireWaiting(). `retry_buffer_bytes` is that of the options. `on_reported`
  // is called when everything is reported after Shut(): see there.
  OpenCalls(SharedPoller* poller, ServerSet* servers, PollerTimer* timer,
            const ClientInterception::Factories* interceptors,
            bool inline_callbacks, uint64_t retry_buffer_bytes,
            std::function<void()> on_reported)
      : interceptors_(interceptors),
        inline_callbacks_(inline_callbacks),
        retry_buffer_bytes_(retry_buffer_bytes),
        poller_(*poller),
        ownership_(poller->ownership()),
        servers_(*servers),
        timer_(timer),
        on_reported_(std::move(on_reported)),
        retrying_(poller, [this](OpenCall* call, absl::Time now) {
          ownership_.AssertHeld();
          Wake(call, now);
        }) {}
  OpenCalls(const OpenCalls&) = delete;
  OpenCalls& operator=(const OpenCalls&) = delete;

  // Starts a prepared call. May end it from inside.
  void Start(OpenCall* call);
  // For a call that was posted: starts it, or reports it if it has failed
  // before it could be started, or could not be reported earlier.
  void RunPosted(OpenCall* call);
  // The transport has given `call` back, because no server has processed it:
  // starts it again soon, but never inside this function. As a new call it may
  // wait for another connection, but not beyond its deadline. Ends it if there
  // will be no more connections.
  void TryAgain(OpenCall* call);
  // An attempt of `call`, which has a retry policy, has ended with `status`.
  // Returns whether there will be another one, after a pause.
  bool TryAgainLater(OpenCall* call, const absl::Status& status);
  // A call that has a retry or hedging policy has ended well.
  void NoteRetriableSuccess() {
    ownership_.AssertHeld();
    retrying_.throttle().NoteSuccess();
  }
  // For the Hedge of a call: see Hedge::Owner.
  Picked PickForHedge(OpenCall* call, absl::Span<PickedServer* const> avoided,
                      absl::Status* why_not);
  bool HedgesAllowed(bool failed);
  // Has a call woken at `time`, or at its deadline if that is earlier. Returns
  // false, and does nothing, after Shut().
  bool WakeAt(OpenCall* call, absl::Time time);
  void RemoveWake(OpenCall* call);
  // The user wants `call` to end: sees to it that it does.
  void Cancel(OpenCall* call);
  // `call` has its status: reports it.
  void Complete(OpenCall* call);

  // Ends a call that was not started, because of the thread that it is on.
  void Refuse(OpenCall* call, const absl::Status& status);

  // Tells of the end of a call by `callback`, right here, if callbacks promise
  // not to block and this is a good place; returns false if not.
  template <typename Callback>
  bool ReportInRound(Callback callback) {
    return inline_callbacks_ && poller_.CallInRound(callback);
  }
  // Has `call`, which has ended, run by the background thread to tell of its
  // end; it then calls CallbackReturned().
  void ReportInBackground(OpenCall* call);
  // For a call that has started: see OpenCall::in_background.
  void SetInBackground(OpenCall* call, bool in_background);

  // Whether calls wait for a connection.
  bool AnyWaiting() const {
    ownership_.AssertHeld();
    return !waiting_.empty();
  }
  // Starts the calls that wait for a connection, because there is one.
  void StartWaiting();
  // Ends the calls that wait for a connection, because there will be none soon;
  // patient ones too if `also_patient`.
  void FailWaiting(const absl::Status& status, bool also_patient);
  // Ends the waiting calls whose deadline has passed, and asks for a timer for
  // the others.
  void ExpireWaiting(absl::Time now);

  // Ends the calls that wait. From now on calls end with `status` where the
  // transport ends them.
  void Shut(const absl::Status& status);
  // After Shut(), when every call has ended and nothing of theirs is posted any
  // more: when the last callback has returned, if that is not so already, calls
  // on_reported. That may destroy this.
  void ReportLast() { Reported(); }
  // A callback has returned. By the thread that called it, without the
  // ownership.
  void CallbackReturned() { Reported(); }

  // The counters of the channel's calls. Any thread.
  std::vector<MethodMetrics> MethodsSnapshot() const {
    return methods_.Snapshot();
  }
  uint64_t retries() const { return retries_.value(); }
  CallSampler& sampler() { return sampler_; }

  // For calls, any thread: the factories of interceptors; null if there
  // are none.
  const ClientInterception::Factories* interceptors() const {
    return interceptors_;
  }
  uint64_t retry_buffer_bytes() const { return retry_buffer_bytes_; }
  void LearnReplySize(uint64_t method_id, uint64_t bytes) {
    ownership_.AssertHeld();
    reply_sizes_.Learn(method_id, bytes);
  }
  // Returns the status of a call that the transport ends with `status`.
  const absl::Status& Explain(const absl::Status& status) const {
    ownership_.AssertHeld();
    return shut_.ok() ? status : shut_;
  }
  // Has `task` run with the ownership held, soon, but never inside this
  // function. Any thread.
  void PostFromOutside(transport::Task* task) { poller_.PostFromOutside(task); }

 private:
  Picked Pick(const OpenCall& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_) {
    return servers_.Pick(call.method_name(), call.state().options().metadata);
  }
  // Has the service config hold for the call. Returns false if that has ended
  // it.
  bool Configure(OpenCall* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  // Gives an attempt up that has had no answer for too long, if there may be
  // another one.
  void OnAttemptTimeout(OpenCall* call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  // The pause of a call is over, or the time of its attempt.
  void Wake(OpenCall* call, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  // Puts it on a connection, now or later, or ends it.
  void Route(OpenCall* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  void Launch(OpenCall* call, const Picked& picked)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  void StartUnconnected(OpenCall* call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(ownership_);
  void Reported() {
    if (unreported_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      on_reported_();
    }
  }

  const ClientInterception::Factories* const interceptors_;
  const bool inline_callbacks_;
  const uint64_t retry_buffer_bytes_;
  SharedPoller& poller_;
  transport::Ownership& ownership_;  // The poller's.
  ServerSet& servers_;
  PollerTimer* const timer_;
  const std::function<void()> on_reported_;

  // Callbacks that are to be called or have not returned, and one more until
  // ReportLast().
  std::atomic<int> unreported_{1};

  Retries retrying_ ABSL_GUARDED_BY(ownership_);
  // The part of configured_by_ for each method that was called; null for none.
  absl::flat_hash_map<uint64_t, const MethodConfig*> method_configs_
      ABSL_GUARDED_BY(ownership_);
  std::shared_ptr<const ServiceConfig> configured_by_
      ABSL_GUARDED_BY(ownership_);
  // Calls that wait for a connection, in the order in which they came.
  base::IntrusiveList<OpenCall> waiting_ ABSL_GUARDED_BY(ownership_);
  ChannelMethods methods_;  // Finds with the ownership held.
  base::Counter retries_;
  CallSampler sampler_;
  ReplySizes reply_sizes_ ABSL_GUARDED_BY(ownership_);
  absl::Status shut_ ABSL_GUARDED_BY(ownership_);  // Not OK after Shut().
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_OPEN_CALLS_H_
