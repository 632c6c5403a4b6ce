#include "rpc/internal/client/subchannel.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/internal/client/path_endpoints.h"
#include "rpc/internal/service/target.h"
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

// The servers behind one name all have it; else the address is their name.
transport::EndpointOptions OptionsFor(
    transport::EndpointOptions options,
    const std::vector<std::string>& addresses) {
  options.device = transport::WantedDevice(options);
  if (options.server_name.empty() && !addresses.empty()) {
    options.server_name = std::string(HostOf(addresses.front()));
  }
  return options;
}

absl::Status ForCalls(const absl::Status& status, const std::string& name) {
  return absl::Status(
      CodeForCalls(status.code()),
      absl::StrCat("no connection to ", name, ": ", status.message()));
}

}  // namespace

Subchannel::Subchannel(std::string name, std::vector<std::string> addresses,
                       const ChannelOptions& options,
                       const transport::EndpointOptions& endpoint,
                       SharedPoller* poller, BackoffCrowd* crowd,
                       Counters* counters, Owner* owner)
    : name_(std::move(name)),
      options_(OptionsFor(endpoint, addresses)),
      fabric_(options.fabric),
      max_paths_(options.max_paths),
      delays_{.recheck = options.rdma_retry_interval},
      poller_(*poller),
      ownership_(poller->ownership()),
      crowd_(crowd),
      counters_(counters),
      owner_(owner),
      timer_([this](absl::Time now) {
        ownership_.AssertHeld();
        OnTimer(now);
      }),
      addresses_(std::move(addresses)),
      connections_(
          poller, options_, this,
          [this] {
            ownership_.AssertHeld();
            LookAtConnections();
          },
          delays_, static_cast<size_t>(options.max_connections_per_address)),
      failures_{.backoff = Backoff(options.initial_backoff, options.max_backoff,
                                   poller->NewSeed())},
      watched_{.address = name_} {}

bool Subchannel::Keeps(const std::vector<std::string>& addresses) {
  ownership_.AssertHeld();
  if (connections_.current() != nullptr &&
      std::find(addresses.begin(), addresses.end(),
                connections_.endpoint().target) == addresses.end()) {
    return false;
  }
  if (state_ == ChannelState::kConnecting && addresses != addresses_) {
    return false;
  }
  addresses_ = addresses;
  return true;
}

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

void Subchannel::SetState(ChannelState state) {
  state_ = state;
  {
    const base::MutexLock lock(mutex_);
    if (state != ChannelState::kReady) watched_ = {.address = name_};
    watched_.state = state;
    watched_.error = std::string(failures_.error.message());
  }
  owner_->OnStateChanged(this);
}

// Fails calls fast during the pause after a failed attempt. A server that said
// that it leaves is an exception: a successor is expected soon.
absl::Status Subchannel::WhyNot(bool patient) const {
  ownership_.AssertHeld();
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
  if (ended_ || state_ == ChannelState::kReady ||
      state_ == ChannelState::kConnecting) {
    return;
  }
  if (state_ == ChannelState::kTransientFailure &&
      base::Now() < failures_.retry_time) {
    return poller_.LowerTimer(&timer_, failures_.retry_time);
  }
  SetState(ChannelState::kConnecting);
  // No thread waits for the attempt itself, so the background thread must poll
  // until OnConnected() or OnFailed().
  poller_.AddPending();
  resolution_ = Resolution::Start(
      &poller_,
      [addresses = addresses_, device = options_.device, fabric = fabric_] {
        return FindEndpoints(addresses, device, fabric);
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

// If nobody wants a connection, this does not count in the crowd, so that
// others need not pause for it.
void Subchannel::OnTimer(absl::Time now) {
  if (owner_->WantsConnection(this)) return Connect();
  if (state_ == ChannelState::kTransientFailure &&
      now >= failures_.retry_time) {
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
        {
          const base::MutexLock lock(mutex_);
          watched_.paths = connections_.ready();
        }
        if (drains_ && connections_.drained()) {
          drains_ = false;
          owner_->OnDrained(this);
        }
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
  counters_->failed_connects.Add();
  failures_.error = ForCalls(why, name_);
  if (!std::exchange(failures_.in_crowd, true)) crowd_->Enter();
  // Behind Enter(), so that this channel counts too.
  const absl::Duration pause = failures_.backoff.Next(
      connections_.outcome().was_cheap, crowd_->LeastPause());
  failures_.retry_time = base::Now() + pause;
  base::Log::OfProcess().Write(
      LogSeverity::kInfo,
      absl::StrCat(failures_.error.message(), "; the next attempt is in ",
                   absl::FormatDuration(pause)));
  SetState(ChannelState::kTransientFailure);
  poller_.RemovePending();
  poller_.LowerTimer(&timer_, failures_.retry_time);
  // Calls wait for its successor.
  if (!connections_.outcome().server_leaves) {
    owner_->OnAttemptEnded(this, failures_.error);
  }
}

void Subchannel::OnConnected() {
  ownership_.AssertHeld();
  LookAtConnections();
}

void Subchannel::OnUnusable() {
  ownership_.AssertHeld();
  LookAtConnections();
}

// Ends an attempt: forgets past failures, publishes the device, and starts the
// calls that wait. If the connection has replaced another, only memory and
// device change.
void Subchannel::OnConnected(bool replaced) {
  counters_->connects.Add();
  if (!replaced) {
    failures_.backoff.Reset();
    failures_.error = absl::OkStatus();
    LeaveCrowd();
  }
  const ClientConnection& connection = *connections_.current();
  const std::string device = connection.device_name();
  const std::string fabric(connections_.endpoint().fabric());
  const std::string reason = WhyFabric();
  base::Log::OfProcess().Write(
      connections_.fell_back() ? LogSeverity::kWarning : LogSeverity::kInfo,
      absl::StrCat("connected to ", name_, ", ", connection.peer(), ", on ",
                   device, " (", fabric, "): ", reason));
  {
    const base::MutexLock lock(mutex_);
    watched_.connected = true;
    watched_.device = device;
    if (watched_.fabric != fabric) {
      watched_.fabric_since = base::ToWallClock(base::Now());
    }
    watched_.fabric = fabric;
    watched_.fabric_reason = reason;
  }
  FindPaths();
  SetState(ChannelState::kReady);
  if (replaced) return;
  poller_.RemovePending();
  owner_->OnAttemptEnded(this, absl::OkStatus());
}

void Subchannel::OnLost() {
  AbandonPaths();
  SetState(ChannelState::kIdle);
}

// Forbids attempts first, then takes back what an attempt under way has
// counted.
void Subchannel::EndAttempts() {
  ended_ = true;
  LeaveCrowd();
  // Neither OnConnected() nor OnFailed() will come to do so.
  if (state_ == ChannelState::kConnecting) poller_.RemovePending();
  if (resolution_ != nullptr) {
    std::exchange(resolution_, nullptr)->Abandon();
  }
  AbandonPaths();
  poller_.CancelTimer(&timer_);
}

void Subchannel::Drain() {
  ownership_.AssertHeld();
  EndAttempts();
  connections_.Drain();
  drains_ = true;
  SetState(ChannelState::kIdle);
  LookAtConnections();
}

void Subchannel::Shut() {
  ownership_.AssertHeld();
  EndAttempts();
  drains_ = false;
  connections_.CloseAll();
  SetState(ChannelState::kIdle);
}

ChannelServerMetrics Subchannel::Describe() const {
  const base::MutexLock lock(mutex_);
  return watched_;
}

}  // namespace verbena::internal
