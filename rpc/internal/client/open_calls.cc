#include "rpc/internal/client/open_calls.h"

#include <algorithm>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"

namespace verbena::internal {

void OpenCalls::Start(UnaryCall* call) {
  role_.AssertHeld();
  poller_.NoteCall();
  if (call->waiter == nullptr) poller_.AddPending();
  Route(call);
}

void OpenCalls::Route(UnaryCall* call) {
  if (ABSL_PREDICT_FALSE(call->context()->cancelled())) {
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

void OpenCalls::Launch(UnaryCall* call,
                       transport::ClientConnection* connection) {
  call->stage = UnaryCall::Stage::kLaunched;
  call->connection = connection;
  call->context()->set_peer(connection->peer());
  call->SetReplyHint(reply_sizes_.Guess(call->request().method_id));
  connection->Start(call);
}

void OpenCalls::StartUnconnected(UnaryCall* call) {
  const absl::Status why_not =
      subchannel_.WhyNot(call->context()->wait_for_ready());
  if (!why_not.ok()) return call->Fail(why_not);
  call->stage = UnaryCall::Stage::kWaiting;
  waiting_.PushBack(call);
  poller_.LowerTimer(timer_, call->deadline());
  subchannel_.Connect();
}

void OpenCalls::RunPosted(UnaryCall* call) {
  role_.AssertHeld();
  switch (call->stage) {
    case UnaryCall::Stage::kNew:
      return Start(call);
    case UnaryCall::Stage::kUnsent:
      return Route(call);
    case UnaryCall::Stage::kRefused:
      poller_.AddPending();
      call->stage = UnaryCall::Stage::kEnded;
      return Complete(call);
    case UnaryCall::Stage::kEnded:
      return Complete(call);
    case UnaryCall::Stage::kWaiting:
    case UnaryCall::Stage::kLaunched:
      break;  // These are not posted.
  }
}

void OpenCalls::TryAgain(UnaryCall* call) {
  role_.AssertHeld();
  if (!shut_.ok()) return call->Fail(shut_);
  call->stage = UnaryCall::Stage::kUnsent;
  call->connection = nullptr;
  poller_.PostFromOutside(call);
}

void OpenCalls::Cancel(UnaryCall* call) {
  role_.AssertHeld();
  const absl::Status status = absl::CancelledError("cancelled by the caller");
  switch (call->stage) {
    case UnaryCall::Stage::kNew:  // Route() looks at the context.
    case UnaryCall::Stage::kUnsent:
    case UnaryCall::Stage::kRefused:
    case UnaryCall::Stage::kEnded:
      return;
    case UnaryCall::Stage::kWaiting:
      waiting_.Remove(call);
      return call->Fail(status);
    case UnaryCall::Stage::kLaunched:
      return call->connection->Cancel(call, status);
  }
}

void OpenCalls::Complete(UnaryCall* call) {
  role_.AssertHeld();
  if (call->waiter != nullptr) return poller_.Finish(call->waiter);
  poller_.RemovePending();
  unreported_.fetch_add(1, std::memory_order_relaxed);
  poller_.AddErrand(call);
}

void OpenCalls::StartWaiting() {
  role_.AssertHeld();
  transport::ClientConnection* const connection = subchannel_.connection();
  while (!waiting_.empty() && !connection->failed()) {
    Launch(waiting_.PopFront(), connection);
  }
}

void OpenCalls::FailWaiting(const absl::Status& status, bool also_patient) {
  role_.AssertHeld();
  IntrusiveList<UnaryCall> patient;
  while (UnaryCall* call = waiting_.PopFront()) {
    if (also_patient || !call->context()->wait_for_ready()) {
      call->Fail(status);
    } else {
      patient.PushBack(call);
    }
  }
  while (UnaryCall* call = patient.PopFront()) waiting_.PushBack(call);
}

void OpenCalls::ExpireWaiting(absl::Time now) {
  role_.AssertHeld();
  for (UnaryCall* call = waiting_.first(); call != nullptr;) {
    UnaryCall* following = call->next;
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
  role_.AssertHeld();
  shut_ = status;
  FailWaiting(status, /*also_patient=*/true);
}

}  // namespace verbena::internal
