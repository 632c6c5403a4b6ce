#include "rpc/internal/client/subchannel.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/base/clock.h"
#include "transport/base/log.h"
#include "transport/client/client_poller.h"
#include "transport/device.h"

namespace verbena::internal {
namespace {

// Errors that another attempt can't mend keep their code. All others become
// UNAVAILABLE, whichever verb failed.
absl::StatusCode CodeForCalls(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kUnimplemented:
      return code;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

transport::EndpointOptions WithWantedDevice(
    transport::EndpointOptions options) {
  options.device = transport::WantedDevice(options);
  return options;
}

// Returns, for the log, the reason why the connection is on this device.
const char* WhyDevice(const transport::EndpointOptions& options,
                      const std::string& device) {
  if (!options.device.empty()) return ", which was asked for";
  return device == transport::kSoftDevice ? ": no RDMA device routes there"
                                          : ", which routes there";
}

absl::Status ForCalls(const absl::Status& status, const std::string& target) {
  return absl::Status(
      CodeForCalls(status.code()),
      absl::StrCat("no connection to ", target, ": ", status.message()));
}

}  // namespace

// Keeps default options if `endpoint` is an error. Nobody uses them, because
// refusal_ then forbids every attempt.
Subchannel::Subchannel(
    std::string target, const ChannelOptions& options,
    const absl::StatusOr<transport::EndpointOptions>& endpoint,
    SharedPoller* poller, PollerTimer* timer, BackoffCrowd* crowd,
    std::function<void(const absl::Status&)> on_attempt_ended)
    : target_(std::move(target)),
      options_(WithWantedDevice(endpoint.ok() ? *endpoint
                                              : transport::EndpointOptions())),
      poller_(*poller),
      ownership_(poller->ownership()),
      timer_(timer),
      crowd_(crowd),
      on_attempt_ended_(std::move(on_attempt_ended)),
      failures_{.backoff = Backoff(options.initial_backoff, options.max_backoff,
                                   poller->NewSeed())},
      refusal_(endpoint.status()) {}

void Subchannel::Ask::Post() {
  // A task stands in one queue at a time.
  if (posted_.exchange(true, std::memory_order_acq_rel)) return;
  subchannel_->poller_.PostFromOutside(this);
}

void Subchannel::Ask::Run() {
  // Before Connect(), so that a thread that asks from now on is heard.
  posted_.store(false, std::memory_order_release);
  subchannel_->Connect();
}

void Subchannel::SetState(ChannelState state) {
  const base::MutexLock lock(mutex_);
  state_ = state;
  // A new attempt may end otherwise, so a thread in WaitForConnected() waits
  // for its result.
  if (state == ChannelState::kConnecting) watched_.hopeless = false;
  if (state != ChannelState::kReady) watched_.device.clear();
  if (watched_.watchers > 0) state_changed_.NotifyAll();
}

// Fails calls fast during the pause after a failed attempt. A server that said
// that it leaves is an exception: a successor is expected soon.
absl::Status Subchannel::WhyNot(bool patient) const {
  ownership_.AssertHeld();
  if (!refusal_.ok()) return refusal_;
  if (!patient && !attempt_.server_leaves &&
      state_ == ChannelState::kTransientFailure &&
      base::Now() < failures_.retry_time) {
    return failures_.error;
  }
  return absl::OkStatus();
}

// Begins an attempt, or sets the timer for one. DropUnusable() comes first: a
// connection that was lost unnoticed would still count as ready.
void Subchannel::Connect() {
  ownership_.AssertHeld();
  DropUnusable();
  if (!refusal_.ok() || state_ == ChannelState::kReady ||
      state_ == ChannelState::kConnecting) {
    return;
  }
  if (state_ == ChannelState::kTransientFailure &&
      base::Now() < failures_.retry_time) {
    return poller_.LowerTimer(timer_, failures_.retry_time);
  }
  SetState(ChannelState::kConnecting);
  // No thread waits for the attempt itself, so the background thread must poll
  // until OnConnected() or OnFailed().
  poller_.AddPending();
  attempt_ = {};
  attempt_.resolution = Resolution::Start(&poller_, target_, options_.device,
                                          [this](Resolution::Result result) {
                                            ownership_.AssertHeld();
                                            OnResolved(std::move(result));
                                          });
}

// A channel that wants no connection does not count in the crowd, so that
// others need not pause for it.
void Subchannel::Rest() {
  ownership_.AssertHeld();
  if (state_ == ChannelState::kTransientFailure &&
      base::Now() >= failures_.retry_time) {
    LeaveCrowd();
  }
}

void Subchannel::LeaveCrowd() {
  if (std::exchange(failures_.in_crowd, false)) crowd_->Leave();
}

void Subchannel::OnResolved(Resolution::Result result) {
  attempt_.resolution = nullptr;
  if (!result.ok()) return OnFailed(result.status());
  attempt_.endpoints = *std::move(result);
  // TryNext() takes the last one, so this keeps the order of the lookup.
  std::reverse(attempt_.endpoints.begin(), attempt_.endpoints.end());
  attempt_.was_cheap = std::all_of(
      attempt_.endpoints.begin(), attempt_.endpoints.end(),
      [](const Resolution::Endpoint& each) { return each.is_cheap; });
  TryNext();
}

// Takes the endpoint out before it connects, since a failure brings it here
// again.
void Subchannel::TryNext() {
  if (attempt_.endpoints.empty()) return OnFailed(attempt_.first_error);
  const Resolution::Endpoint endpoint = attempt_.endpoints.back();
  attempt_.endpoints.pop_back();
  connection_ = poller_.client_poller().Connect(
      *endpoint.provider, endpoint.address, options_, this);
}

// Notes why the endpoint failed, and tries the next one. Update() keeps the
// first error.
void Subchannel::GiveUp() {
  attempt_.first_error.Update(
      connection_->failed()
          ? connection_->failure()
          : absl::UnavailableError("the server is shutting down"));
  // An address where somebody listened has cost another process something.
  attempt_.was_cheap = attempt_.was_cheap && connection_->found_nobody();
  attempt_.server_leaves =
      attempt_.server_leaves || connection_->server_leaves();
  Close(std::move(connection_));
  TryNext();
}

// Ends an attempt: chooses the pause, writes to the log, and tells the calls.
// The state changes before the calls hear, because WhyNot() reads it.
void Subchannel::OnFailed(const absl::Status& why) {
  failed_connects_.Add();
  failures_.error = ForCalls(why, target_);
  if (!std::exchange(failures_.in_crowd, true)) crowd_->Enter();
  // Behind Enter(), so that this channel counts too.
  const absl::Duration pause =
      failures_.backoff.Next(attempt_.was_cheap, crowd_->LeastPause());
  failures_.retry_time = base::Now() + pause;
  base::Log::OfProcess().Write(
      LogSeverity::kInfo,
      absl::StrCat(failures_.error.message(), "; the next attempt is in ",
                   absl::FormatDuration(pause)));
  {
    const base::MutexLock lock(mutex_);
    // In time for SetState(), which wakes the threads that look at it.
    watched_.hopeless = !absl::IsUnavailable(failures_.error);
  }
  SetState(ChannelState::kTransientFailure);
  poller_.RemovePending();
  poller_.LowerTimer(timer_, failures_.retry_time);
  // Calls wait for its successor.
  if (!attempt_.server_leaves) on_attempt_ended_(failures_.error);
}

// Ends an attempt: forgets the other endpoints and past failures, publishes
// memory and device, and starts the calls that wait.
void Subchannel::OnConnected() {
  ownership_.AssertHeld();
  connects_.Add();
  attempt_.endpoints.clear();
  failures_.backoff.Reset();
  LeaveCrowd();
  // Before kReady: a thread that sees the state may ask for registered memory.
  buffers_.Set(connection_->buffer_source());
  const std::string device = connection_->device_name();
  base::Log::OfProcess().Write(
      LogSeverity::kInfo,
      absl::StrCat("connected to ", target_, ", ", connection_->peer(), ", on ",
                   device, WhyDevice(options_, device)));
  {
    const base::MutexLock lock(mutex_);
    watched_.device = device;
  }
  SetState(ChannelState::kReady);
  poller_.RemovePending();
  on_attempt_ended_(absl::OkStatus());
}

// Closes draining connections that have ended, then looks at connection_. The
// notice does not say which of them it is about.
void Subchannel::OnUnusable() {
  ownership_.AssertHeld();
  std::erase_if(draining_, [this](std::unique_ptr<ClientConnection>& drained) {
    ownership_.AssertHeld();
    if (!drained->failed()) return false;
    Close(std::move(drained));
    return true;
  });
  if (connection_ == nullptr || connection_->usable() ||
      connection_->connecting()) {
    return;
  }
  // The endpoint has failed, but the attempt goes on with the next one.
  if (state_ == ChannelState::kConnecting) return GiveUp();
  DropUnusable();
}

void Subchannel::DropUnusable() {
  if (state_ != ChannelState::kReady || connection_->usable()) return;
  // New attachments go to plain memory until there is another connection.
  buffers_.Set(transport::BufferSource());
  if (connection_->failed()) {
    base::Log::OfProcess().Write(LogSeverity::kInfo,
                                 connection_->failure().message());
    Close(std::move(connection_));
  } else {
    // Its open calls go on until the server closes it.
    draining_.push_back(std::move(connection_));
  }
  SetState(ChannelState::kIdle);
}

void Subchannel::Close(std::unique_ptr<ClientConnection> connection) {
  poller_.client_poller().Close(std::move(connection));
}

// Forbids attempts first, then takes back what an attempt under way has
// counted, and closes every connection.
void Subchannel::Shut(const absl::Status& status) {
  ownership_.AssertHeld();
  {
    const base::MutexLock lock(mutex_);
    refusal_ = status;
  }
  LeaveCrowd();
  // Neither OnConnected() nor OnFailed() will come to do so.
  if (state_ == ChannelState::kConnecting) poller_.RemovePending();
  if (attempt_.resolution != nullptr) {
    std::exchange(attempt_.resolution, nullptr)->Abandon();
  }
  buffers_.Set(transport::BufferSource());
  if (connection_ != nullptr) Close(std::move(connection_));
  for (std::unique_ptr<ClientConnection>& drained : draining_) {
    Close(std::move(drained));
  }
  draining_.clear();
  SetState(ChannelState::kIdle);
}

bool Subchannel::IsWaitedFor() const {
  const base::MutexLock lock(mutex_);
  return watched_.watchers > 0;
}

ChannelState Subchannel::state(bool try_to_connect) {
  const base::MutexLock lock(mutex_);
  if (try_to_connect && state_ == ChannelState::kIdle) ask_.Post();
  return state_;
}

std::string Subchannel::device() const {
  const base::MutexLock lock(mutex_);
  return watched_.device;
}

bool Subchannel::WaitForConnected(absl::Time deadline) {
  const base::MutexLock lock(mutex_);
  ++watched_.watchers;
  while (state_ != ChannelState::kReady && !watched_.hopeless &&
         refusal_.ok() && base::Now() < deadline) {
    // Asked in each turn, because the state may have become idle again.
    ask_.Post();
    state_changed_.WaitUntil(mutex_, deadline);
  }
  --watched_.watchers;
  return state_ == ChannelState::kReady;
}

}  // namespace verbena::internal
