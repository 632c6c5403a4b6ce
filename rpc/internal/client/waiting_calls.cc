// The part of OpenCalls for calls that wait: for the service config, for a
// connection, or for their next attempts.

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/internal/client/open_calls.h"
#include "transport/base/clock.h"
#include "transport/streams/message_stream.h"

namespace verbena::internal {

// Most calls find the config as it was for the call before.
bool OpenCalls::Configure(OpenCall* call) {
  const std::shared_ptr<const ServiceConfig>& config = servers_.config();
  if (config != configured_by_) {
    configured_by_ = config;
    method_configs_.clear();
    retrying_.throttle().Configure(config != nullptr &&
                                           config->throttling().has_value()
                                       ? &*config->throttling()
                                       : nullptr);
  }
  call->configured = true;
  if (config == nullptr) return true;
  const auto [found, added] =
      method_configs_.try_emplace(call->request().method_id, nullptr);
  if (added) found->second = config->Find(call->method_name());
  return found->second == nullptr ||
         call->Configure(config, *found->second, poller_.Now());
}

// Has the call wait for a connection, unless the last attempt failed and the
// call is not patient.
void OpenCalls::StartUnconnected(OpenCall* call) {
  const absl::Status why_not = servers_.WhyNot(call->patient());
  if (!why_not.ok()) return call->OnFailed(why_not);
  call->stage = OpenCall::Stage::kWaiting;
  waiting_.PushBack(call);
  poller_.LowerTimer(timer_, call->deadline());
  servers_.Connect();
}

bool OpenCalls::TryAgainLater(OpenCall* call, const absl::Status& status) {
  ownership_.AssertHeld();
  if (!shut_.ok() || call->state().cancelled()) return false;
  // Takes no token either: the server may be well, and the call too short.
  if (call->deadline() <= base::Now()) return false;
  const transport::MessageStream* const stream = call->stream();
  if (stream != nullptr && !stream->can_restart()) {
    call->retry->committed = true;
  }
  std::optional<absl::Duration> pause = std::exchange(call->retry->pause, {});
  if (!pause.has_value()) {
    pause = retrying_.Next(call->retry.get(), status,
                           call->state().results().trailing_metadata);
  }
  if (!pause.has_value()) return false;
  if (!call->BeginRetry()) return true;
  retries_.Add();
  call->stage = OpenCall::Stage::kPaused;
  call->connection = nullptr;
  WakeAt(call, base::Now() + *pause);
  return true;
}

// A call that is on its way back from a connection is looked at when it comes.
void OpenCalls::Wake(OpenCall* call, absl::Time now) {
  if (call->hedge != nullptr) {
    call->hedge->OnTime(now);
  } else if (call->stage == OpenCall::Stage::kPaused) {
    Route(call);
  } else if (call->stage == OpenCall::Stage::kLaunched) {
    if (now < call->deadline()) OnAttemptTimeout(call);
  }
}

// The call hears of the end of its attempt inside of the cancellation, and
// finds the pause.
void OpenCalls::OnAttemptTimeout(OpenCall* call) {
  const transport::MessageStream* const stream = call->stream();
  if (stream != nullptr && !stream->can_restart()) return;
  RetryState& retry = *call->retry;
  if (retry.committed || retry.attempts >= retry.policy->max_attempts ||
      call->state().cancelled()) {
    return;
  }
  retry.pause = retrying_.NextAfterTimeout(&retry);
  if (!retry.pause.has_value()) return;
  call->connection->Cancel(
      call, absl::DeadlineExceededError(absl::StrCat(
                "no answer within perAttemptRecvTimeout, ",
                absl::FormatDuration(retry.policy->attempt_timeout))));
}

bool OpenCalls::WakeAt(OpenCall* call, absl::Time time) {
  ownership_.AssertHeld();
  RemoveWake(call);
  if (!shut_.ok()) return false;
  call->wake = retrying_.WakeAt(call, std::min(time, call->deadline()));
  return true;
}

void OpenCalls::RemoveWake(OpenCall* call) {
  ownership_.AssertHeld();
  retrying_.Remove(call->wake);
}

Picked OpenCalls::PickForHedge(OpenCall* call,
                               absl::Span<PickedServer* const> avoided,
                               absl::Status* why_not) {
  ownership_.AssertHeld();
  const Picked picked = servers_.PickAnother(
      call->method_name(), call->state().options().metadata, avoided);
  if (picked.connection != nullptr && picked.connection->usable()) {
    return picked;
  }
  *why_not = servers_.WhyNot(call->patient());
  servers_.Connect();
  return {};
}

bool OpenCalls::HedgesAllowed(bool failed) {
  ownership_.AssertHeld();
  RetryThrottle& throttle = retrying_.throttle();
  return (failed ? throttle.NoteFailure() : throttle.allows()) && shut_.ok();
}

// Takes all calls out first: those that find no connection wait again.
void OpenCalls::StartWaiting() {
  ownership_.AssertHeld();
  base::IntrusiveList<OpenCall> waited;
  while (OpenCall* call = waiting_.PopFront()) waited.PushBack(call);
  while (OpenCall* call = waited.PopFront()) Route(call);
}

// Takes all calls out before it puts the patient ones back, which keeps their
// order.
void OpenCalls::FailWaiting(const absl::Status& status, bool also_patient) {
  ownership_.AssertHeld();
  base::IntrusiveList<OpenCall> patient;
  while (OpenCall* call = waiting_.PopFront()) {
    if (also_patient || !call->patient()) {
      call->OnFailed(status);
    } else {
      patient.PushBack(call);
    }
  }
  while (OpenCall* call = patient.PopFront()) waiting_.PushBack(call);
}

// Looks at each waiting call. The timer goes off once, so each call that stays
// asks for it again.
void OpenCalls::ExpireWaiting(absl::Time now) {
  ownership_.AssertHeld();
  for (OpenCall* call = waiting_.front(); call != nullptr;) {
    // Read first: Fail() may destroy the call.
    OpenCall* following = waiting_.Next(call);
    if (call->deadline() <= now) {
      waiting_.Remove(call);
      const absl::Status error = servers_.connect_error();
      call->Fail(absl::DeadlineExceededError(
          absl::StrCat("not connected to ", servers_.target(), " in time",
                       error.ok() ? "" : "; ", error.message())));
    } else {
      poller_.LowerTimer(timer_, call->deadline());
    }
    call = following;
  }
}

}  // namespace verbena::internal
