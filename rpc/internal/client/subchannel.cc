#include "rpc/internal/client/subchannel.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "transport/base/check.h"

namespace verbena::internal {

Subchannel::Subchannel(
    std::string target, const ChannelOptions& options,
    const absl::StatusOr<transport::EndpointOptions>& endpoint,
    SharedPoller* poller, transport::PollerTask* attempt_ended)
    : target_(std::move(target)),
      options_(endpoint.ok() ? *endpoint : transport::EndpointOptions()),
      poller_(*poller),
      role_(poller->role()),
      attempt_ended_(attempt_ended),
      backoff_(options.initial_backoff, options.max_backoff),
      refusal_(endpoint.status()) {}

void Subchannel::SetState(ChannelState state) {
  const base::MutexLock lock(mutex_);
  state_ = state;
  if (state != ChannelState::kReady) device_.clear();
  if (watchers_ > 0) state_changed_.NotifyAll();
}

absl::Status Subchannel::WhyNot(bool patient) const {
  role_.AssertHeld();
  if (!refusal_.ok()) return refusal_;
  if (patient) return absl::OkStatus();
  if (connection_ != nullptr && connection_->draining()) {
    return absl::UnavailableError(absl::StrCat(
        "the server at ", connection_->peer(), " is shutting down"));
  }
  if (state_ == ChannelState::kTransientFailure && absl::Now() < retry_time_) {
    return connect_error_;
  }
  return absl::OkStatus();
}

void Subchannel::Connect() {
  role_.AssertHeld();
  DropUnusable();
  if (connection_ != nullptr || !refusal_.ok()) return;
  if (state_ == ChannelState::kConnecting) return;
  if (state_ == ChannelState::kTransientFailure && absl::Now() < retry_time_) {
    return poller_.LowerTimer(retry_time_);
  }
  SetState(ChannelState::kConnecting);
  {
    const base::MutexLock lock(mutex_);
    attempt_due_ = true;
    hopeless_ = false;
  }
  poller_.NotifyBackground();
}

void Subchannel::ConnectIfAsked() {
  bool wanted;
  {
    const base::MutexLock lock(mutex_);
    wanted = std::exchange(asked_, false) || watchers_ > 0;
  }
  if (wanted) Connect();
}

bool Subchannel::IsWaitedFor() const {
  const base::MutexLock lock(mutex_);
  return watchers_ > 0;
}

void Subchannel::OnAttemptEnded(Connector::Result result) {
  {
    const base::MutexLock lock(mutex_);
    result_.emplace(std::move(result));
  }
  if (poller_.Post(attempt_ended_)) poller_.Release();
}

absl::Status Subchannel::TakeResult() {
  role_.AssertHeld();
  std::optional<Connector::Result> result;
  {
    const base::MutexLock lock(mutex_);
    std::swap(result, result_);
  }
  CHECK(result.has_value());
  if (!result->ok()) {
    OnFailed(result->status());
    return connect_error_;
  }
  Install(**std::move(result));
  return absl::OkStatus();
}

void Subchannel::Install(std::unique_ptr<ClientConnection> connection) {
  CHECK(connection_ == nullptr);
  connection_ = std::move(connection);
  poller_.Drive(connection_.get());
  backoff_.Reset();
  buffers_.Set(connection_->buffer_source());
  {
    const base::MutexLock lock(mutex_);
    device_ = connection_->device_name();
  }
  SetState(ChannelState::kReady);
}

void Subchannel::OnFailed(const absl::Status& status) {
  connect_error_ = status;
  retry_time_ = absl::Now() + backoff_.Next();
  {
    const base::MutexLock lock(mutex_);
    hopeless_ = !absl::IsUnavailable(status);
  }
  SetState(ChannelState::kTransientFailure);
  poller_.LowerTimer(retry_time_);
}

bool Subchannel::DropUnusable() {
  role_.AssertHeld();
  if (connection_ == nullptr || poller_.in_transport()) return false;
  if (!SharedPoller::IsOver(*connection_)) return false;
  poller_.Drive(nullptr);
  buffers_.Set(transport::BufferSource());
  {
    const base::MutexLock lock(mutex_);
    old_.push_back(std::move(connection_));
  }
  SetState(ChannelState::kIdle);
  poller_.NotifyBackground();  // To destroy it.
  return true;
}

void Subchannel::Refuse(absl::Status status) {
  role_.AssertHeld();
  const base::MutexLock lock(mutex_);
  refusal_ = std::move(status);
}

void Subchannel::CloseConnection() {
  role_.AssertHeld();
  if (connection_ != nullptr) {
    poller_.Drive(nullptr);
    connection_.reset();
  }
  const base::MutexLock lock(mutex_);
  old_.clear();
}

void Subchannel::RunBlocking() {
  bool attempt;
  std::vector<std::unique_ptr<ClientConnection>> old;
  {
    const base::MutexLock lock(mutex_);
    attempt = std::exchange(attempt_due_, false);
    old.swap(old_);
  }
  old.clear();
  if (!attempt) return;
  if (connector_ == nullptr) {
    connector_ = std::make_unique<Connector>(
        target_, options_, [this](Connector::Result result) {
          OnAttemptEnded(std::move(result));
        });
  }
  connector_->Start();
}

ChannelState Subchannel::state(bool try_to_connect) {
  const base::MutexLock lock(mutex_);
  if (try_to_connect && state_ == ChannelState::kIdle) {
    asked_ = true;
    poller_.NotifyBackground();
  }
  return state_;
}

std::string Subchannel::device() const {
  const base::MutexLock lock(mutex_);
  return device_;
}

bool Subchannel::WaitForConnected(absl::Time deadline) {
  const base::MutexLock lock(mutex_);
  ++watchers_;
  while (state_ != ChannelState::kReady && !hopeless_ && refusal_.ok() &&
         absl::Now() < deadline) {
    poller_.NotifyBackground();
    state_changed_.WaitUntil(mutex_, deadline);
  }
  --watchers_;
  return state_ == ChannelState::kReady;
}

}  // namespace verbena::internal
