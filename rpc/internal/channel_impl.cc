#include "rpc/internal/channel_impl.h"

#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rpc/internal/endpoint_limits.h"
#include "transport/base/check.h"

namespace verbena::internal {

ChannelImpl::ChannelImpl(std::string target, const ChannelOptions& options)
    : target_(std::move(target)),
      backoff_(options.initial_backoff, options.max_backoff) {
  absl::StatusOr<transport::EndpointOptions> endpoint =
      ToEndpointOptions(options);
  if (endpoint.ok()) {
    endpoint_options_ = *std::move(endpoint);
  } else {
    options_error_ = endpoint.status();
  }
}

ChannelImpl::~ChannelImpl() {
  CHECK(!InCallback());
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    if (sleeping_poller_ != nullptr) sleeping_poller_->Wake();
  }
  background_wake_.notify_all();
  if (background_.joinable()) background_.join();
  CHECK(posted_.empty());
}

absl::Status ChannelImpl::Call(UnaryCall* call) {
  CHECK(!InCallback());
  UnaryCall::Waiter waiter;
  call->waiter = &waiter;
  bool have_role = role_.TryAcquire();
  if (have_role) {
    polling_for_ = call;
    StartCall(call);
  } else {
    have_role = Post(call);
  }
  while (true) {
    if (have_role) {
      const bool finished = PollFor(call);
      ReleaseRole();
      if (finished) break;
    }
    if (WaitForTurn(call)) break;
    have_role = role_.TryAcquire();
  }
  return call->TakeStatus();
}

void ChannelImpl::CallAsync(UnaryCall* call) {
  if (InCallback()) {
    // Not into a callback from inside the function that starts the call.
    const bool may_report = std::exchange(may_report_, false);
    StartCall(call);
    may_report_ = may_report;
  } else if (role_.TryAcquire()) {
    StartCall(call);
    ReleaseRole();
  } else if (Post(call)) {
    ReleaseRole();
  }
}

class ChannelImpl::FailTask final : public PollerTask {
 public:
  FailTask(ChannelImpl* channel, UnaryCall* call)
      : channel_(channel), call_(call) {}

  void Run() override {
    ++channel_->open_async_calls_;
    channel_->completed_.PushBack(call_);
    delete this;
  }

 private:
  ChannelImpl* const channel_;
  UnaryCall* const call_;
};

void ChannelImpl::FailAsync(UnaryCall* call, absl::Status status) {
  call->SetFailedBeforeStart(std::move(status));
  if (Post(new FailTask(this, call))) ReleaseRole();
}

void ChannelImpl::StartCall(UnaryCall* call) {
  ++started_calls_;
  if (call->waiter == nullptr) ++open_async_calls_;
  if (call->context()->cancelled()) {
    return call->Fail(absl::CancelledError("cancelled before it started"));
  }
  if (call->deadline() != absl::InfiniteFuture() && call->deadline() <= Now()) {
    return call->Fail(absl::DeadlineExceededError(
        "the deadline had passed before the call started"));
  }
  if (ABSL_PREDICT_FALSE(!Connected())) {
    CheckConnection();
    if (!Connected()) return WaitForConnection(call);
  }
  Launch(call);
}

absl::Time ChannelImpl::Now() {
  if (connection_ == nullptr) return absl::Now();
  if (!in_transport_) connection_->poller().RefreshNow();
  return connection_->poller().now();
}

void ChannelImpl::Launch(UnaryCall* call) {
  call->stage = UnaryCall::Stage::kLaunched;
  call->context()->set_peer(connection_->peer());
  call->SetReplyHint(reply_sizes_.Guess(call->request().method_id));
  connection_->Start(call);
}

void ChannelImpl::WaitForConnection(UnaryCall* call) {
  if (!options_error_.ok()) return call->Fail(options_error_);
  if (closing_) return call->Fail(ExplainFailure(absl::OkStatus()));
  const bool patient = call->context()->wait_for_ready();
  if (connection_ != nullptr && connection_->draining() && !patient) {
    return call->Fail(absl::UnavailableError(absl::StrCat(
        "the server at ", connection_->peer(), " is shutting down")));
  }
  if (state_ == ChannelState::kTransientFailure && !patient &&
      absl::Now() < retry_time_) {
    return call->Fail(connect_error_);
  }
  call->stage = UnaryCall::Stage::kPending;
  pending_.PushBack(call);
  LowerTimer(call->deadline());
  if (connection_ == nullptr) ConnectWhenAllowed();
}

void ChannelImpl::CancelCall(UnaryCall* call) {
  const absl::Status status = absl::CancelledError("cancelled by the caller");
  switch (call->stage) {
    case UnaryCall::Stage::kNew:  // StartCall() looks at the context.
    case UnaryCall::Stage::kCompleted:
      return;
    case UnaryCall::Stage::kPending:
      pending_.Remove(call);
      return call->Fail(status);
    case UnaryCall::Stage::kLaunched:
      return connection_->Cancel(call, status);
  }
}

void ChannelImpl::CompleteCall(UnaryCall* call) {
  if (call->waiter != nullptr) {
    FinishWaiter(call);
  } else if (may_report_) {
    Report(call);
  } else {
    completed_.PushBack(call);
  }
}

void ChannelImpl::Report(UnaryCall* call) {
  absl::AnyInvocable<void(absl::Status)> on_done = std::move(call->on_done);
  absl::Status status = call->TakeStatus();
  call->Destroy();
  --open_async_calls_;
  on_done(std::move(status));
}

int ChannelImpl::ReportCompleted() {
  int reported = 0;
  while (UnaryCall* call = completed_.PopFront()) {
    Report(call);
    ++reported;
  }
  return reported;
}

void ChannelImpl::LearnReplySize(uint64_t method_id, uint64_t bytes) {
  reply_sizes_.Learn(method_id, bytes);
}

absl::Status ChannelImpl::ExplainFailure(const absl::Status& status) {
  if (closing_) return absl::CancelledError("the channel was destroyed");
  return status;
}

}  // namespace verbena::internal
