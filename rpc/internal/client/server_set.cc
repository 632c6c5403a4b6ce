#include "rpc/internal/client/server_set.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rpc/internal/service/balancers.h"
#include "rpc/internal/service/target.h"
#include "transport/base/clock.h"

namespace verbena::internal {
namespace {

absl::Status NoResolver(const Target& target) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the target \"", target.text, "\" has the scheme \"", target.scheme,
      "\", for which ChannelOptions::resolvers has no ResolverFactory"));
}

}  // namespace

std::unique_ptr<ServiceServer> ServerSet::NewServer(
    ServerAddress address, std::vector<std::string> addresses) {
  std::string name = address.address;
  return std::make_unique<ServiceServer>(
      std::move(address), std::move(name), std::move(addresses), options_,
      endpoint_, &poller_, crowd_, &counters_,
      static_cast<Subchannel::Owner*>(this));
}

void ServerSet::Later::Post() {
  if (posted_.exchange(true, std::memory_order_acq_rel)) return;
  set_->poller_.PostFromOutside(this);
}

void ServerSet::Later::Run() {
  // Before the function, so that a thread that asks from now on is heard.
  posted_.store(false, std::memory_order_release);
  (set_->*what_)();
}

// A target of a scheme that nobody knows is taken for an address, "host:port",
// unless it can't be one.
ServerSet::ServerSet(std::string target, const ChannelOptions& options,
                     const absl::StatusOr<transport::EndpointOptions>& endpoint,
                     SharedPoller* poller, BackoffCrowd* crowd,
                     Observer* observer)
    : target_(std::move(target)),
      options_(options),
      endpoint_(endpoint.ok() ? *endpoint : transport::EndpointOptions()),
      poller_(*poller),
      ownership_(poller->ownership()),
      crowd_(crowd),
      observer_(*observer),
      seed_(poller->NewSeed()),
      parsed_(ParseTarget(target_)),
      resolve_timer_([this](absl::Time /*now*/) {
        ownership_.AssertHeld();
        OnResolveTimer();
      }),
      idle_timer_([this](absl::Time /*now*/) {
        ownership_.AssertHeld();
        OnIdleTimer();
      }),
      resolve_backoff_(options.initial_backoff, options.max_backoff, seed_),
      refusal_(endpoint.status()) {
  if (refusal_.ok()) refusal_ = UseConfig("");
  if (refusal_.ok() && parsed_.has_value()) {
    factory_ = FindFactory(parsed_->scheme, options_);
    if (factory_ != nullptr) return;
  }
  if (parsed_.has_value() && absl::StrContains(target_, "://")) {
    refusal_.Update(NoResolver(*parsed_));
  }
  balancer_ = nullptr;
  AddOnly({target_});
}

ServerSet::~ServerSet() = default;

void ServerSet::Add(std::unique_ptr<ServiceServer> server) {
  const base::MutexLock lock(mutex_);
  servers_.push_back(std::move(server));
}

void ServerSet::OnStateChanged(Subchannel* subchannel) {
  ownership_.AssertHeld();
  const ChannelState state = subchannel->state();
  if (subchannel == only_) {
    // Before the state: a thread that sees it may ask for registered memory.
    buffers_.Set(subchannel->buffer_source());
    Publish();
  } else if (only_ == nullptr) {
    refresh_.Post();
    // A balancer has all its servers connected.
    if (state == ChannelState::kIdle) subchannel->Connect();
  }
  if (resolver_ != nullptr && (state == ChannelState::kIdle ||
                               state == ChannelState::kTransientFailure)) {
    resolver_->ResolveNow();
  }
}

// With several servers Refresh() tells the observer, which OnStateChanged() has
// asked for.
void ServerSet::OnAttemptEnded(Subchannel* subchannel,
                               const absl::Status& status) {
  ownership_.AssertHeld();
  if (subchannel != only_) return;
  if (status.ok()) {
    observer_.OnReady();
  } else {
    observer_.OnUnavailable(status);
  }
}

// A balancer's servers are connected again whether a call waits or not.
bool ServerSet::WantsConnection(Subchannel* subchannel) {
  ownership_.AssertHeld();
  if (subchannel != only_) return true;
  return IsWaitedFor();
}

bool ServerSet::IsWaitedFor() const {
  if (observer_.AnyWaiting()) return true;
  const base::MutexLock lock(mutex_);
  return watchers_ > 0;
}

void ServerSet::Connect() {
  ownership_.AssertHeld();
  if (!refusal_.ok()) return;
  if (options_.idle_timeout != absl::InfiniteDuration()) {
    poller_.LowerTimer(&idle_timer_, base::Now() + options_.idle_timeout);
  }
  if (only_ != nullptr) return only_->Connect();
  wanted_ = true;
  if (resolver_ != nullptr) return;
  resolver_ = ResolverLink::Open(&poller_, factory_, *parsed_,
                                 [this](absl::StatusOr<Resolved> answer) {
                                   ownership_.AssertHeld();
                                   OnAnswer(std::move(answer));
                                 });
  Publish();
}

bool ServerSet::AnyOpenCalls() const {
  if (only_ != nullptr) return only_->open_calls() > 0;
  return std::any_of(servers_.begin(), servers_.end(), [](const auto& server) {
    return server->open_calls() > 0;
  });
}

// Then everything is as it was before the first call.
void ServerSet::OnIdleTimer() {
  if (!refusal_.ok()) return;
  if (std::exchange(used_, false) || AnyOpenCalls() || IsWaitedFor()) {
    return poller_.LowerTimer(&idle_timer_,
                              base::Now() + options_.idle_timeout);
  }
  if (resolver_ != nullptr) std::exchange(resolver_, nullptr)->Close();
  poller_.CancelTimer(&resolve_timer_);
  resolve_error_ = absl::OkStatus();
  resolve_backoff_.Reset();
  wanted_ = false;
  RemoveAll();
  if (factory_ == nullptr) AddOnly({target_});
  buffers_.Set(transport::BufferSource());
  Publish();
}

// A target that can't be right does not become so by waiting.
absl::Status ServerSet::WhyNot(bool patient) const {
  ownership_.AssertHeld();
  if (!refusal_.ok()) return refusal_;
  if (only_ != nullptr) return only_->WhyNot(patient);
  const absl::Status failure = AllFailed();
  return patient && absl::IsUnavailable(failure) ? absl::OkStatus() : failure;
}

absl::Status ServerSet::connect_error() const {
  ownership_.AssertHeld();
  if (only_ != nullptr) return only_->connect_error();
  for (const auto& server : servers_) {
    if (absl::Status error = server->error(); !error.ok()) return error;
  }
  return resolve_error_;
}

// A server whose error may pass is the one to tell of: calls may wait for it.
absl::Status ServerSet::AllFailed() const {
  if (servers_.empty()) return resolve_error_;
  absl::Status failure;
  for (const auto& server : servers_) {
    const absl::Status error = server->error();
    if (error.ok()) return error;
    if (failure.ok() || absl::IsUnavailable(error)) failure = error;
  }
  return failure;
}

// The balancer's choice may be avoided, or have been lost a moment ago: then
// the next one that is not ejected.
Picked ServerSet::PickAmong(const Balancer::Call& call,
                            absl::Span<PickedServer* const> avoided) {
  const size_t count = ready_.size();
  if (count == 0) return {};
  Picked first;
  size_t position = balancer_->Pick(call);
  for (size_t tried = 0; tried < count; ++tried, ++position) {
    if (position >= count) position = 0;
    ServiceServer* const server = ready_[position];
    ClientConnection* const connection = server->subchannel.connection();
    if (connection == nullptr || !connection->usable()) continue;
    const Picked picked = {connection, server};
    const bool passed_over = tried > 0 && server->ejected();
    if (!passed_over &&
        std::find(avoided.begin(), avoided.end(), server) == avoided.end()) {
      return picked;
    }
    if (first.connection == nullptr) first = picked;
  }
  return first;
}

// A server that is left out hears of no results: its balancer may be gone.
void ServerSet::ClearReady() {
  for (ServiceServer* server : ready_) server->ReportTo(nullptr, 0);
  ready_.clear();
}

void ServerSet::SetReady(std::vector<ServiceServer*> ready) {
  ClearReady();
  ready_ = std::move(ready);
  if (balancer_ == nullptr) return;
  for (size_t i = 0; i < ready_.size(); ++i) {
    ready_[i]->ReportTo(balancer_.get(), i);
  }
  balancer_->SetServers(
      std::vector<Balancer::Server*>(ready_.begin(), ready_.end()));
}

void ServerSet::Refresh() {
  ownership_.AssertHeld();
  if (!refusal_.ok() || only_ != nullptr) return;
  std::vector<ServiceServer*> ready;
  std::optional<std::string> health_service;
  if (config_ != nullptr) health_service = config_->health_service();
  for (const auto& server : servers_) {
    server->WatchHealth(&poller_, health_service, [this] { refresh_.Post(); });
    if (server->ready()) ready.push_back(server.get());
  }
  // Addresses may have other weights although the servers are the same.
  SetReady(std::move(ready));
  buffers_.Set(ready_.empty() ? transport::BufferSource()
                              : ready_.front()->subchannel.buffer_source());
  Publish();
  if (!ready_.empty()) return observer_.OnReady();
  if (const absl::Status error = AllFailed(); !error.ok()) {
    observer_.OnUnavailable(error);
  }
}

ChannelState ServerSet::StateOfAll() const {
  if (only_ != nullptr) return only_->state();
  if (!ready_.empty()) return ChannelState::kReady;
  if (!AllFailed().ok()) return ChannelState::kTransientFailure;
  return resolver_ != nullptr ? ChannelState::kConnecting : ChannelState::kIdle;
}

void ServerSet::Publish() {
  const ChannelState state = StateOfAll();
  const absl::Status error = state == ChannelState::kTransientFailure
                                 ? connect_error()
                                 : absl::OkStatus();
  const base::MutexLock lock(mutex_);
  state_ = state;
  hopeless_ = !error.ok() && !absl::IsUnavailable(error);
  if (watchers_ > 0) state_changed_.NotifyAll();
}

void ServerSet::Shut(const absl::Status& status) {
  ownership_.AssertHeld();
  {
    const base::MutexLock lock(mutex_);
    refusal_ = status;
  }
  if (resolver_ != nullptr) std::exchange(resolver_, nullptr)->Close();
  poller_.CancelTimer(&resolve_timer_);
  poller_.CancelTimer(&idle_timer_);
  ClearReady();
  for (const auto& server : servers_) {
    server->EndWatch();
    server->subchannel.Shut();
  }
  for (const auto& server : leaving_) server->subchannel.Shut();
  buffers_.Set(transport::BufferSource());
  Publish();
}

ChannelState ServerSet::state(bool try_to_connect) {
  const base::MutexLock lock(mutex_);
  if (try_to_connect && (state_ == ChannelState::kIdle ||
                         state_ == ChannelState::kTransientFailure)) {
    ask_.Post();
  }
  return state_;
}

std::string ServerSet::device() const {
  ChannelMetrics metrics;
  Describe(&metrics);
  return metrics.device;
}

// The channel's own fields are those of its first server that is connected.
void ServerSet::Describe(ChannelMetrics* metrics) const {
  metrics->connects = counters_.connects.value();
  metrics->failed_connects = counters_.failed_connects.value();
  const base::MutexLock lock(mutex_);
  for (const auto& server : servers_) {
    metrics->servers.push_back(server->Describe());
    const ChannelServerMetrics& told = metrics->servers.back();
    metrics->paths += told.paths;
    if (!told.connected || metrics->connected) continue;
    metrics->connected = true;
    metrics->device = told.device;
    metrics->fabric = told.fabric;
    metrics->fabric_reason = told.fabric_reason;
    metrics->fabric_since = told.fabric_since;
  }
}

bool ServerSet::WaitForConnected(absl::Time deadline) {
  const base::MutexLock lock(mutex_);
  ++watchers_;
  while (state_ != ChannelState::kReady && !hopeless_ && refusal_.ok() &&
         base::Now() < deadline) {
    // Asked in each turn, because the state may have become idle again.
    ask_.Post();
    state_changed_.WaitUntil(mutex_, deadline);
  }
  --watchers_;
  return state_ == ChannelState::kReady;
}

}  // namespace verbena::internal
