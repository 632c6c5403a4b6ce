#include "rpc/internal/client/channel_impl.h"

#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "rpc/internal/client/endpoint_limits.h"
#include "rpc/internal/codec/protobuf_codec.h"
#include "transport/base/check.h"

namespace verbena::internal {

ChannelImpl::ChannelImpl(std::string target, const ChannelOptions& options)
    : ChannelImpl(std::move(target), options, ToEndpointOptions(options)) {}

ChannelImpl::ChannelImpl(
    std::string target, const ChannelOptions& options,
    const absl::StatusOr<transport::EndpointOptions>& endpoint)
    : max_send_message_bytes_(endpoint.ok() ? endpoint->max_send_message_bytes
                                            : kLongestMessageBytes),
      poller_(options.spin_budget, this),
      subchannel_(std::move(target), options, endpoint, &poller_,
                  &attempt_ended_),
      calls_(&poller_, &subchannel_) {}

ChannelImpl::~ChannelImpl() {
  CHECK(!InCallback());
  poller_.Stop();
}

void ChannelImpl::Call(UnaryCall* call) {
  Waiter waiter;
  call->waiter = &waiter;
  bool finished = false;
  if (poller_.role().TryAcquire()) {
    calls_.Start(call);
    finished = poller_.PollAndRelease(&waiter);
  } else if (poller_.Post(call)) {
    finished = poller_.PollAndRelease(&waiter);
  }
  while (!finished) {
    if (poller_.WaitForTurn(&waiter)) break;
    if (poller_.role().TryAcquire()) {
      finished = poller_.PollAndRelease(&waiter);
    }
  }
}

void ChannelImpl::CallAsync(UnaryCall* call) {
  if (InCallback()) {
    // Not into a callback from inside the function that starts the call.
    poller_.role().AssertHeld();
    const bool may_call_back = poller_.SetMayCallBack(false);
    calls_.Start(call);
    poller_.SetMayCallBack(may_call_back);
  } else if (poller_.role().TryAcquire()) {
    calls_.Start(call);
    poller_.Release();
  } else if (poller_.Post(call)) {
    poller_.Release();
  }
}

void ChannelImpl::ReportAsync(UnaryCall* call) {
  if (poller_.Post(call)) poller_.Release();
}

void ChannelImpl::OnAttemptEnded() {
  const absl::Status status = subchannel_.TakeResult();
  if (!status.ok()) {
    return calls_.FailWaiting(status,
                              /*also_patient=*/!absl::IsUnavailable(status));
  }
  calls_.StartWaiting();
  poller_.NotifyBackground();  // To watch the connection.
}

void ChannelImpl::OnConnectionUnusable() {
  if (subchannel_.DropUnusable() && calls_.AnyWaiting()) subchannel_.Connect();
}

void ChannelImpl::OnTimer(absl::Time now) {
  calls_.ExpireWaiting(now);
  if (calls_.AnyWaiting() || subchannel_.IsWaitedFor()) subchannel_.Connect();
}

void ChannelImpl::OnStop() {
  PollingRole& role = poller_.role();
  while (!role.TryAcquire()) std::this_thread::yield();
  const absl::Status destroyed =
      absl::CancelledError("the channel was destroyed");
  subchannel_.Refuse(destroyed);
  calls_.Shut(destroyed);
  role.Release();
  // The attempt's thread may need the role to run what it posts.
  subchannel_.FinishAttempt();
  while (!role.TryAcquire()) std::this_thread::yield();
  poller_.RunAll();
  subchannel_.CloseConnection();
  poller_.RunAll();  // Callbacks may start calls, which fail.
  role.Release();
}

}  // namespace verbena::internal
