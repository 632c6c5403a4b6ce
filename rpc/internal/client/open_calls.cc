#include "rpc/internal/client/open_calls.h"

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "transport/base/clock.h"

namespace verbena::internal {

// Counts the call before it is routed, because Route() may end it, and its end
// looks for the counters.
void OpenCalls::Start(OpenCall* call) {
  ownership_.AssertHeld();
  poller_.NoteCall();
  call->NoteStart(&methods_);
  sampler_.NoteStart();
  if (call->in_background) poller_.AddPending();
  Route(call);
}

// Chooses among three ways: the call ends at once, goes to the connection, or
// waits for one. TryAgain() brings a call here a second time, so both checks
// come before each attempt.
void OpenCalls::Route(OpenCall* call) {
  if (ABSL_PREDICT_FALSE(servers_.config() != nullptr ||
                         configured_by_ != nullptr) &&
      !call->configured && !Configure(call)) {
    return;
  }
  if (ABSL_PREDICT_FALSE(call->state().cancelled())) {
    return call->Fail(absl::CancelledError("cancelled before it was sent"));
  }
  // A call without a deadline does not read the clock.
  if (call->deadline() != absl::InfiniteFuture() &&
      call->deadline() <= poller_.Now()) {
    return call->Fail(absl::DeadlineExceededError(
        "the deadline had passed before the call could be sent"));
  }
  // A draining or lost connection may still be there until its observer hears
  // of the change.
  const Picked picked = Pick(*call);
  if (ABSL_PREDICT_FALSE(picked.connection == nullptr ||
                         !picked.connection->usable())) {
    return StartUnconnected(call);
  }
  Launch(call, picked);
}

void OpenCalls::Launch(OpenCall* call, const Picked& picked) {
  transport::ClientConnection* const connection = picked.connection;
  // All of the call is set before Start(), which may end the call from inside.
  call->stage = OpenCall::Stage::kLaunched;
  call->connection = connection;
  call->attempt.Begin(picked.server, /*timed=*/!call->streams());
  call->state().results().set_peer(connection->peer());
  // For each attempt anew: another server may want no names.
  call->SetSendsName(connection->wants_method_names());
  call->SetReplyHint(reply_sizes_.Guess(call->request().method_id));
  if (ABSL_PREDICT_FALSE(call->hedge != nullptr)) {
    call->hedge->OnFirstBegun(picked.server);
  }
  if (ABSL_PREDICT_FALSE(call->retry != nullptr) &&
      call->retry->policy->attempt_timeout != absl::InfiniteDuration()) {
    WakeAt(call, base::Now() + call->retry->policy->attempt_timeout);
  }
  connection->Start(call);
}

// The stage says for which step the call was posted, because a call stands in
// one queue at a time.
void OpenCalls::RunPosted(OpenCall* call) {
  ownership_.AssertHeld();
  switch (call->stage) {
    case OpenCall::Stage::kNew:
      return Start(call);
    case OpenCall::Stage::kUnsent:
      return Route(call);
    case OpenCall::Stage::kRefused:
      // A refused call never counted as pending, and Complete() takes the count
      // back.
      poller_.AddPending();
      call->stage = OpenCall::Stage::kEnded;
      return Complete(call);
    case OpenCall::Stage::kEnded:
      return Complete(call);
    case OpenCall::Stage::kWaiting:
    case OpenCall::Stage::kLaunched:
    case OpenCall::Stage::kPaused:
    case OpenCall::Stage::kReported:
      break;  // These are not posted to the poller.
  }
}

void OpenCalls::TryAgain(OpenCall* call) {
  ownership_.AssertHeld();
  if (!shut_.ok()) return call->Fail(shut_);
  // Posted, not routed: the transport may be in the middle of ending many
  // calls, and forbids a new Start() here.
  retries_.Add();
  call->stage = OpenCall::Stage::kUnsent;
  call->connection = nullptr;
  poller_.PostFromOutside(call);
}

// Ends the call where it waits or lies with the transport. At all other stages
// the call has ended, or looks at the context before its next step.
void OpenCalls::Cancel(OpenCall* call) {
  ownership_.AssertHeld();
  const absl::Status status = absl::CancelledError("cancelled by the caller");
  switch (call->stage) {
    case OpenCall::Stage::kNew:  // Route() looks at the context.
    case OpenCall::Stage::kUnsent:
    case OpenCall::Stage::kRefused:
    case OpenCall::Stage::kEnded:
    case OpenCall::Stage::kReported:
      return;
    case OpenCall::Stage::kWaiting:
      waiting_.Remove(call);
      return call->Fail(status);
    case OpenCall::Stage::kPaused:
      RemoveWake(call);
      return call->Fail(status);
    case OpenCall::Stage::kLaunched:
      // Its own attempt may have ended, and others may be open.
      if (call->hedge != nullptr) return call->Fail(status);
      return call->connection->Cancel(call, status);
  }
}

void OpenCalls::Complete(OpenCall* call) {
  ownership_.AssertHeld();
  // The waiting thread reads the status itself. It may destroy the call as soon
  // as it is told.
  if (call->waiter != nullptr) return poller_.Finish(call->waiter);
  // Before Report(), which may destroy the call.
  SetInBackground(call, false);
  call->Report();
}

// Counts the call like any other, because End() counts its end.
void OpenCalls::Refuse(OpenCall* call, const absl::Status& status) {
  ownership_.AssertHeld();
  poller_.NoteCall();
  call->NoteStart(&methods_);
  sampler_.NoteStart();
  call->Fail(status);
}

void OpenCalls::ReportInBackground(OpenCall* call) {
  // Before the post: the count must not reach zero while a callback is to come.
  // Relaxed, because the queue orders the rest.
  unreported_.fetch_add(1, std::memory_order_relaxed);
  call->stage = OpenCall::Stage::kReported;
  poller_.PostInBackground(call);
}

void OpenCalls::SetInBackground(OpenCall* call, bool in_background) {
  ownership_.AssertHeld();
  if (call->in_background == in_background) return;
  call->in_background = in_background;
  if (in_background) {
    poller_.AddPending();
  } else {
    poller_.RemovePending();
  }
}

void OpenCalls::Shut(const absl::Status& status) {
  ownership_.AssertHeld();
  shut_ = status;
  FailWaiting(status, /*also_patient=*/true);
  for (OpenCall* call : retrying_.RemoveAll()) {
    if (call->hedge != nullptr) {
      call->hedge->Stop(status);
    } else if (call->stage == OpenCall::Stage::kPaused) {
      call->Fail(status);
    }
  }
}

}  // namespace verbena::internal
