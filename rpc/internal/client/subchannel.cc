#include "rpc/internal/client/subchannel.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/internal/client/path_endpoints.h"
#include "transport/base/clock.h"
#include "transport/base/log.h"
#include "transport/client/client_poller.h"
#include "transport/device.h"

namespace verbena::internal {
namespace {

// As many NICs as most hosts have at most.
constexpr size_t kDefaultRdmaPaths = 4;

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
      fabric_(options.fabric),
      max_paths_(options.max_paths),
      delays_{.recheck = options.rdma_retry_interval},
      poller_(*poller),
      ownership_(poller->ownership()),
      timer_(timer),
      crowd_(crowd),
      on_attempt_ended_(std::move(on_attempt_ended)),
      connections_(
          poller, options_, this,
          [this] {
            ownership_.AssertHeld();
            LookAtConnections();
          },
          delays_),
      failures_{.backoff = Backoff(options.initial_backoff, options.max_backoff,
                                   poller->NewSeed())},
      refusal_(endpoint.status()) {}

std::string Subchannel::WhyFabric() const {
  if (!connections_.fell_back()) {
    return std::string(connections_.endpoint().why);
  }
  const absl::Status& error = connections_.rdma_error();
  return absl::StrCat(
      "RDMA has not connected",
      error.ok() ? "" : absl::StrCat(" (", error.message(), ")"),
      "; it is tried again every ", absl::FormatDuration(delays_.recheck));
}

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
  if (state != ChannelState::kReady) {
    watched_.device.clear();
    watched_.fabric.clear();
    watched_.paths = 0;
  }
  if (watched_.watchers > 0) state_changed_.NotifyAll();
}

// Fails calls fast during the pause after a failed attempt. A server that said
// that it leaves is an exception: a successor is expected soon.
absl::Status Subchannel::WhyNot(bool patient) const {
  ownership_.AssertHeld();
  if (!refusal_.ok()) return refusal_;
  if (!patient && !connections_.outcome().server_leaves &&
      state_ == ChannelState::kTransientFailure &&
      base::Now() < failures_.retry_time) {
    return failures_.error;
  }
  return absl::OkStatus();
}

// Begins an attempt, or sets the timer for one. First comes a look: a
// connection that was lost unnoticed would still count as ready.
void Subchannel::Connect() {
  ownership_.AssertHeld();
  LookAtConnections();
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
  resolution_ = Resolution::Start(
      &poller_,
      [target = target_, device = options_.device, fabric = fabric_] {
        return FindEndpoints(target, device, fabric);
      },
      [this](Resolution::Result result) {
        ownership_.AssertHeld();
        OnResolved(std::move(result));
      });
}

// Within a host there is one path. A device that the user has named is the only
// one that may be used.
void Subchannel::FindPaths() {
  AbandonPaths();
  const Resolution::Endpoint& first = connections_.endpoint();
  const size_t max_paths = max_paths_ != 0  ? static_cast<size_t>(max_paths_)
                           : !first.is_rdma ? 1
                                            : kDefaultRdmaPaths;
  const bool one_device = first.is_rdma && !options_.device.empty();
  auto told = connections_.current()->server_addresses();
  if (first.is_cheap || one_device || max_paths == 1 ||
      told.addresses.empty()) {
    return;
  }
  path_lookup_ = Resolution::Start(
      &poller_,
      [first, addresses = std::move(told.addresses), max_paths] {
        return internal::FindPaths(first, addresses, max_paths);
      },
      [this, server = std::move(told.server)](const Resolution::Result& found) {
        ownership_.AssertHeld();
        path_lookup_ = nullptr;
        connections_.UsePaths(server, *found);
      });
}

void Subchannel::AbandonPaths() {
  if (path_lookup_ != nullptr) {
    std::exchange(path_lookup_, nullptr)->Abandon();
  }
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
  resolution_ = nullptr;
  if (!result.ok()) return OnFailed(result.status());
  connections_.Begin(*std::move(result));
}

void Subchannel::LookAtConnections() {
  using Change = SubchannelConnections::Change;
  for (;;) {
    switch (connections_.Look()) {
      case Change::kNothing: {
        const base::MutexLock lock(mutex_);
        watched_.paths = connections_.ready();
        return;
      }
      case Change::kConnected:
        OnConnected(/*replaced=*/false);
        break;
      case Change::kReplaced:
        OnConnected(/*replaced=*/true);
        break;
      case Change::kLost:
        OnLost();
        break;
      case Change::kFailed:
        OnFailed(connections_.outcome().first_error);
        break;
    }
  }
}

// Ends an attempt: chooses the pause, writes to the log, and tells the calls.
// The state changes before the calls hear, because WhyNot() reads it.
void Subchannel::OnFailed(const absl::Status& why) {
  failed_connects_.Add();
  failures_.error = ForCalls(why, target_);
  if (!std::exchange(failures_.in_crowd, true)) crowd_->Enter();
  // Behind Enter(), so that this channel counts too.
  const absl::Duration pause = failures_.backoff.Next(
      connections_.outcome().was_cheap, crowd_->LeastPause());
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
  if (!connections_.outcome().server_leaves) on_attempt_ended_(failures_.error);
}

void Subchannel::OnConnected() {
  ownership_.AssertHeld();
  LookAtConnections();
}

void Subchannel::OnUnusable() {
  ownership_.AssertHeld();
  LookAtConnections();
}

// Ends an attempt: forgets past failures, publishes memory and device, and
// starts the calls that wait. If the connection has replaced another, only
// memory and device change.
void Subchannel::OnConnected(bool replaced) {
  connects_.Add();
  if (!replaced) {
    failures_.backoff.Reset();
    LeaveCrowd();
  }
  const ClientConnection& connection = *connections_.current();
  // Before kReady: a thread that sees the state may ask for registered memory.
  buffers_.Set(connection.buffer_source());
  const std::string device = connection.device_name();
  const std::string fabric(connections_.endpoint().fabric());
  const std::string reason = WhyFabric();
  base::Log::OfProcess().Write(
      connections_.fell_back() ? LogSeverity::kWarning : LogSeverity::kInfo,
      absl::StrCat("connected to ", target_, ", ", connection.peer(), ", on ",
                   device, " (", fabric, "): ", reason));
  {
    const base::MutexLock lock(mutex_);
    watched_.device = device;
    if (watched_.fabric != fabric) watched_.fabric_since = base::Now();
    watched_.fabric = fabric;
    watched_.fabric_reason = reason;
  }
  FindPaths();
  if (replaced) return;
  SetState(ChannelState::kReady);
  poller_.RemovePending();
  on_attempt_ended_(absl::OkStatus());
}

void Subchannel::OnLost() {
  AbandonPaths();
  // New attachments go to plain memory until there is another connection.
  buffers_.Set(transport::BufferSource());
  SetState(ChannelState::kIdle);
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
  if (resolution_ != nullptr) {
    std::exchange(resolution_, nullptr)->Abandon();
  }
  AbandonPaths();
  buffers_.Set(transport::BufferSource());
  connections_.CloseAll();
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

void Subchannel::Describe(ChannelMetrics* metrics) const {
  const base::MutexLock lock(mutex_);
  metrics->connected = state_ == ChannelState::kReady;
  metrics->device = watched_.device;
  metrics->fabric = watched_.fabric;
  metrics->paths = watched_.paths;
  if (watched_.fabric.empty()) return;
  metrics->fabric_reason = watched_.fabric_reason;
  metrics->fabric_since = base::ToWallClock(watched_.fabric_since);
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
