#include "rpc/internal/client/channel_impl.h"

#include <optional>
#include <utility>

#include "absl/base/optimization.h"
#include "rpc/internal/client/background_thread.h"
#include "rpc/internal/client/endpoint_limits.h"
#include "rpc/internal/client/shared_pollers.h"
#include "rpc/internal/codec/protobuf_codec.h"
#include "rpc/internal/service/target.h"
#include "transport/base/check.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {

// Makes the channel even if its options or credentials are not valid.
// `endpoint` keeps that error, and each call ends with it. Only a missing
// poller fails here.
absl::StatusOr<ChannelImpl*> ChannelImpl::Create(
    const std::string& target,
    const std::shared_ptr<const ChannelCredentials>& credentials,
    const ChannelOptions& options) {
  absl::StatusOr<transport::EndpointOptions> endpoint =
      ToEndpointOptions(options);
  if (credentials == nullptr) {
    endpoint = absl::InvalidArgumentError("the channel's credentials are null");
  } else if (endpoint.ok() && !credentials->kind().empty()) {
    // Insecure credentials have no kind. Then the transport gets none, and
    // skips the handshake.
    endpoint->credentials = credentials;
    // The name that everybody knows the servers by, whatever their addresses.
    if (const std::optional<Target> parsed = ParseTarget(target);
        parsed.has_value() && parsed->scheme == "dns") {
      endpoint->server_name = std::string(HostOf(parsed->path));
    }
  }
  ASSIGN_OR_RETURN(SharedPoller * poller,
                   SharedPollers::OfProcess().Join(options.spin_budget));
  return new ChannelImpl(poller, target, options, endpoint);
}

ChannelImpl::ChannelImpl(
    SharedPoller* poller, const std::string& target,
    const ChannelOptions& options,
    const absl::StatusOr<transport::EndpointOptions>& endpoint)
    : poller_(*poller),
      // Without valid options the library's own limits stand in. Each call then
      // ends with the error of the options, not with a wrong limit.
      max_send_message_bytes_(endpoint.ok() ? endpoint->max_send_message_bytes
                                            : kLongestMessageBytes),
      max_receive_message_bytes_(endpoint.ok()
                                     ? endpoint->max_receive_message_bytes
                                     : kLongestMessageBytes),
      interceptors_(options.interceptors),
      servers_(target, options, endpoint, poller,
               SharedPollers::OfProcess().backoff_crowd(), this),
      calls_(poller, &servers_, &timer_,
             interceptors_.empty() ? nullptr : &interceptors_,
             options.inline_callbacks, options.retry_buffer_bytes,
             [this] { OnReported(); }) {}

ChannelImpl::~ChannelImpl() { SharedPollers::OfProcess().Leave(&poller_); }

ChannelMetrics ChannelImpl::Metrics() {
  ChannelMetrics metrics;
  metrics.target = servers_.target();
  servers_.Describe(&metrics);
  metrics.methods = calls_.MethodsSnapshot();
  metrics.retries = calls_.retries();
  return metrics;
}

// Polls on this thread if the ownership is free: then no thread is woken for
// the call. Otherwise posts the call to the owner and waits.
void ChannelImpl::Call(UnaryCall* call) {
  Waiter waiter;
  call->waiter = &waiter;
  if (poller_.ownership().TryAcquire()) {
    calls_.Start(call);
    return poller_.PollAndRelease(&waiter);
  }
  // The thread is the owner already. If it waited here, nobody would poll.
  if (ABSL_PREDICT_FALSE(poller_.RunsCallbackOfRound())) {
    return calls_.Refuse(call, BlocksInCallback());
  }
  Await(call, &waiter);
}

absl::Status ChannelImpl::BlocksInCallback() {
  return absl::FailedPreconditionError(
      "a callback made a blocking call, but ChannelOptions::inline_callbacks "
      "promises that callbacks never block; make an asynchronous call instead");
}

// Hands `task` to the owner, then takes turns between waiting and trying the
// ownership. WaitForTurn() returns false when the owner may have left.
void ChannelImpl::Await(transport::Task* task, Waiter* waiter) {
  CHECK(!poller_.RunsCallbackOfRound()) << BlocksInCallback().message();
  if (poller_.Post(task)) return poller_.PollAndRelease(waiter);
  while (!poller_.WaitForTurn(waiter)) {
    if (poller_.ownership().TryAcquire()) return poller_.PollAndRelease(waiter);
  }
}

void ChannelImpl::CallAsync(UnaryCall* call) {
  if (!poller_.RunsTask()) return Start(call);
  // Callbacks that run one after another often make a call each: these go out
  // together.
  if (poller_.ownership().HeldByThisThread()) {
    calls_.Start(call);
  } else {
    poller_.PostFromOutside(call);
  }
}

void ChannelImpl::ReportAsync(UnaryCall* call) { Post(call); }

void ChannelImpl::Start(OpenCall* call) {
  if (poller_.ownership().TryAcquire()) {
    calls_.Start(call);
    poller_.Release();
  } else {
    Post(call);
  }
}

void ChannelImpl::Post(transport::Task* task) {
  if (poller_.Post(task)) poller_.Release();
}

void ChannelImpl::OnUnavailable(const absl::Status& status) {
  // UNAVAILABLE may pass, so patient calls wait for the next attempt. No
  // attempt can mend any other error.
  calls_.FailWaiting(status, /*also_patient=*/!absl::IsUnavailable(status));
}

// Runs twice. The first run ends all calls. The second run comes behind
// everything that those calls had posted, so the channel may go.
void ChannelImpl::Retirement::Run() {
  ChannelImpl& channel = *channel_;
  if (std::exchange(calls_ended_, true)) return channel.calls_.ReportLast();
  const absl::Status destroyed =
      absl::CancelledError("the channel was destroyed");
  // Before the servers: when their connections close, the calls that they had
  // find shut_ set, and end with this status instead of starting anew.
  channel.calls_.Shut(destroyed);
  channel.servers_.Shut(destroyed);
  channel.poller_.CancelTimer(&channel.timer_);
  // Behind what the calls have posted that were cancelled before.
  channel.poller_.PostFromOutside(this);
}

// Posts the retirement, and waits until the last callback has returned. A
// thread inside a callback cannot wait for that, so OnReported() deletes the
// channel there.
void ChannelImpl::Retire() {
  if (BackgroundThread::RunsAnyTask()) {
    return poller_.PostFromOutside(&retirement_);
  }
  {
    const base::MutexLock lock(mutex_);
    awaited_ = true;
  }
  if (poller_.Post(&retirement_)) poller_.Release();
  {
    const base::MutexLock lock(mutex_);
    while (!reported_) reported_changed_.Wait(mutex_);
  }
  delete this;
}

// The flags decide under the mutex which of the two threads deletes the
// channel.
void ChannelImpl::OnReported() {
  {
    const base::MutexLock lock(mutex_);
    reported_ = true;
    reported_changed_.NotifyAll();
    if (awaited_) return;  // Retire() deletes *this.
  }
  delete this;
}

}  // namespace verbena::internal
