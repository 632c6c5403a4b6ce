#include "rpc/internal/client/server_set.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rpc/internal/codec/metadata_codec.h"
#include "rpc/internal/service/balancers.h"
#include "rpc/internal/service/target.h"
#include "rpc/load_report.h"
#include "transport/base/clock.h"

namespace verbena::internal {
namespace {

absl::Status NoResolver(const Target& target) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the target \"", target.text, "\" has the scheme \"", target.scheme,
      "\", for which ChannelOptions::resolvers has no ResolverFactory"));
}

}  // namespace

ServerSet::Entry::Entry(ServerAddress address, std::string name,
                        std::vector<std::string> addresses, ServerSet* set)
    : subchannel(std::move(name), std::move(addresses), set->options_,
                 set->endpoint_, &set->poller_, set->crowd_, &set->counters_,
                 set),
      set_(*set),
      address_(std::move(address)) {}

void ServerSet::Entry::OnResult(absl::StatusCode code, absl::Time begun,
                                absl::Span<const uint8_t> trailing) {
  set_.ownership_.AssertHeld();
  Balancer::Result result{.code = code, .time = base::Now()};
  result.latency = result.time - begun;
  absl::StatusOr<LoadReport> load = absl::NotFoundError("");
  if (!trailing.empty()) {
    Metadata metadata;
    ParseMetadata(trailing, &metadata).IgnoreError();
    const auto found = metadata.find(kLoadReportKey);
    if (found != metadata.end()) load = ReadLoadReport(found->second);
  }
  if (load.ok()) result.load = &*load;
  set_.balancer_->OnResult(*position_, result);
}

void ServerSet::Entry::WatchHealth(const std::optional<std::string>& service) {
  if (health_ != nullptr && health_->service() != service) EndWatch();
  if (!service.has_value()) return;
  if (health_ == nullptr) {
    health_ =
        std::make_unique<HealthWatch>(&set_.poller_, address_.address, *service,
                                      [this] { set_.refresh_.Post(); });
  }
  health_->Follow(subchannel.state() == ChannelState::kReady
                      ? subchannel.current()
                      : nullptr);
}

void ServerSet::Entry::EndWatch() {
  if (health_ == nullptr) return;
  health_->Follow(nullptr);
  health_ = nullptr;
}

absl::Status ServerSet::Entry::error() const {
  if (health_ != nullptr && subchannel.state() == ChannelState::kReady) {
    return health_->known() ? health_->status() : absl::OkStatus();
  }
  return subchannel.server_leaves() ? absl::OkStatus()
                                    : subchannel.connect_error();
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

void ServerSet::Add(std::unique_ptr<Entry> entry) {
  const base::MutexLock lock(mutex_);
  entries_.push_back(std::move(entry));
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
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const auto& entry) { return entry->open_calls() > 0; });
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
  for (const auto& entry : entries_) {
    if (absl::Status error = entry->error(); !error.ok()) return error;
  }
  return resolve_error_;
}

// A server whose error may pass is the one to tell of: calls may wait for it.
absl::Status ServerSet::AllFailed() const {
  if (entries_.empty()) return resolve_error_;
  absl::Status failure;
  for (const auto& entry : entries_) {
    const absl::Status error = entry->error();
    if (error.ok()) return error;
    if (failure.ok() || absl::IsUnavailable(error)) failure = error;
  }
  return failure;
}

// The balancer's choice may be avoided, or have been lost a moment ago: then
// the next one.
Picked ServerSet::PickAmong(const Balancer::Call& call,
                            absl::Span<PickedServer* const> avoided) {
  const size_t count = ready_.size();
  if (count == 0) return {};
  Picked first;
  size_t position = balancer_->Pick(call);
  for (size_t tried = 0; tried < count; ++tried, ++position) {
    if (position >= count) position = 0;
    Entry* const entry = ready_[position];
    ClientConnection* const connection = entry->subchannel.connection();
    if (connection == nullptr || !connection->usable()) continue;
    const Picked picked = {connection, entry};
    if (std::find(avoided.begin(), avoided.end(), entry) == avoided.end()) {
      return picked;
    }
    if (first.connection == nullptr) first = picked;
  }
  return first;
}

// A server that is left out hears of no results: its balancer may be gone.
void ServerSet::ClearReady() {
  for (Entry* entry : ready_) entry->set_position(std::nullopt, false);
  ready_.clear();
}

void ServerSet::SetReady(std::vector<Entry*> ready) {
  ClearReady();
  ready_ = std::move(ready);
  if (balancer_ == nullptr) return;
  for (size_t i = 0; i < ready_.size(); ++i) {
    ready_[i]->set_position(i, balancer_->wants_results());
  }
  balancer_->SetServers(
      std::vector<Balancer::Server*>(ready_.begin(), ready_.end()));
}

void ServerSet::Refresh() {
  ownership_.AssertHeld();
  if (!refusal_.ok() || only_ != nullptr) return;
  std::vector<Entry*> ready;
  std::optional<std::string> health_service;
  if (config_ != nullptr) health_service = config_->health_service();
  for (const auto& entry : entries_) {
    entry->WatchHealth(health_service);
    if (entry->ready()) ready.push_back(entry.get());
    const bool unhealthy =
        !entry->ready() && entry->subchannel.state() == ChannelState::kReady;
    const base::MutexLock lock(mutex_);
    entry->healthy = !unhealthy;
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
  for (const auto& entry : entries_) {
    entry->EndWatch();
    entry->subchannel.Shut();
  }
  for (const auto& entry : leaving_) entry->subchannel.Shut();
  buffers_.Set(transport::BufferSource());
  Publish();
}

ChannelState ServerSet::state(bool try_to_connect) {
  const base::MutexLock lock(mutex_);
  if (try_to_connect && state_ == ChannelState::kIdle) ask_.Post();
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
  for (const auto& entry : entries_) {
    metrics->servers.push_back(entry->subchannel.Describe());
    ChannelServerMetrics& server = metrics->servers.back();
    server.weight = entry->address().weight;
    server.load_weight = entry->load_weight();
    server.ejected = entry->ejected();
    server.healthy = entry->healthy;
    const uint64_t ended = entry->ended();
    server.calls = entry->begun();
    server.open_calls = server.calls - ended;
    metrics->paths += server.paths;
    if (!server.connected || metrics->connected) continue;
    metrics->connected = true;
    metrics->device = server.device;
    metrics->fabric = server.fabric;
    metrics->fabric_reason = server.fabric_reason;
    metrics->fabric_since = server.fabric_since;
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
