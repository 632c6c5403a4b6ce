#include "rpc/internal/client/open_calls.h"

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"

namespace verbena::internal {

void OpenCalls::Start(OpenCall* call) {
  ownership_.AssertHeld();
  poller_.NoteCall();
  call->NoteStart(&methods_);
  sampler_.NoteStart();
  if (call->in_background) poller_.AddPending();
  Route(call);
}

void OpenCalls::Route(OpenCall* call) {
  if (ABSL_PREDICT_FALSE(call->state().cancelled())) {
    return call->Fail(absl::CancelledError("cancelled before it was sent"));
  }
  if (call->deadline() != absl::InfiniteFuture() &&
      call->deadline() <= poller_.Now()) {
    return call->Fail(absl::DeadlineExceededError(
        "the deadline had passed before the call could be sent"));
  }
  transport::ClientConnection* const connection = subchannel_.connection();
  if (ABSL_PREDICT_FALSE(connection == nullptr || !connection->usable())) {
    return StartUnconnected(call);
  }
  Launch(call, connection);
}

void OpenCalls::Launch(OpenCall* call,
                       transport::ClientConnection* connection) {
  call->stage = OpenCall::Stage::kLaunched;
  call->connection = connection;
  call->state().results().set_peer(connection->peer());
  call->SetSendsName(connection->wants_method_names());
  call->SetReplyHint(reply_sizes_.Guess(call->request().method_id));
  connection->Start(call);
}

void OpenCalls::StartUnconnected(OpenCall* call) {
  const absl::Status why_not =
      subchannel_.WhyNot(call->state().options().wait_for_ready);
  if (!why_not.ok()) return call->Fail(why_not);
  call->stage = OpenCall::Stage::kWaiting;
  waiting_.PushBack(call);
  poller_.LowerTimer(timer_, call->deadline());
  subchannel_.Connect();
}

void OpenCalls::RunPosted(OpenCall* call) {
  ownership_.AssertHeld();
  switch (call->stage) {
    case OpenCall::Stage::kNew:
      return Start(call);
    case OpenCall::Stage::kUnsent:
      return Route(call);
    case OpenCall::Stage::kRefused:
      poller_.AddPending();
      call->stage = OpenCall::Stage::kEnded;
      return Complete(call);
    case OpenCall::Stage::kEnded:
      return Complete(call);
    case OpenCall::Stage::kWaiting:
    case OpenCall::Stage::kLaunched:
    case OpenCall::Stage::kReported:
      break;  // These are not posted to the poller.
  }
}

void OpenCalls::TryAgain(OpenCall* call) {
  ownership_.AssertHeld();
  if (!shut_.ok()) return call->Fail(shut_);
  retries_.Add();
  call->stage = OpenCall::Stage::kUnsent;
  call->connection = nullptr;
  poller_.PostFromOutside(call);
}

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
    case OpenCall::Stage::kLaunched:
      return call->connection->Cancel(call, status);
  }
}

void OpenCalls::Complete(OpenCall* call) {
  ownership_.AssertHeld();
  if (call->waiter != nullptr) return poller_.Finish(call->waiter);
  SetInBackground(call, false);
  call->Report();
}

void OpenCalls::Refuse(OpenCall* call, const absl::Status& status) {
  ownership_.AssertHeld();
  poller_.NoteCall();
  call->NoteStart(&methods_);
  sampler_.NoteStart();
  call->Fail(status);
}

void OpenCalls::ReportInBackground(OpenCall* call) {
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

void OpenCalls::StartWaiting() {
  ownership_.AssertHeld();
  transport::ClientConnection* const connection = subchannel_.connection();
  while (!waiting_.empty() && !connection->failed()) {
    Launch(waiting_.PopFront(), connection);
  }
}

void OpenCalls::FailWaiting(const absl::Status& status, bool also_patient) {
  ownership_.AssertHeld();
  IntrusiveList<OpenCall> patient;
  while (OpenCall* call = waiting_.PopFront()) {
    if (also_patient || !call->state().options().wait_for_ready) {
      call->Fail(status);
    } else {
      patient.PushBack(call);
    }
  }
  while (OpenCall* call = patient.PopFront()) waiting_.PushBack(call);
}

void OpenCalls::ExpireWaiting(absl::Time now) {
  ownership_.AssertHeld();
  for (OpenCall* call = waiting_.first(); call != nullptr;) {
    OpenCall* following = call->next;
    if (call->deadline() <= now) {
      waiting_.Remove(call);
      const absl::Status& error = subchannel_.connect_error();
      call->Fail(absl::DeadlineExceededError(
          absl::StrCat("not connected to ", subchannel_.target(), " in time",
                       error.ok() ? "" : "; ", error.message())));
    } else {
      poller_.LowerTimer(timer_, call->deadline());
    }
    call = following;
  }
}

void OpenCalls::Shut(const absl::Status& status) {
  ownership_.AssertHeld();
  shut_ = status;
  FailWaiting(status, /*also_patient=*/true);
}

}  // namespace verbena::internal
