// ChannelImpl: how it gets a connection, and loses it.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rpc/internal/channel_impl.h"
#include "transport/base/check.h"

namespace verbena::internal {

void ChannelImpl::SetState(ChannelState state) {
  std::lock_guard<std::mutex> lock(mutex_);
  state_ = state;
  if (state != ChannelState::kReady) device_.clear();
  if (watchers_ > 0) state_changed_.notify_all();
}

void ChannelImpl::RequestConnect() {
  CHECK(connection_ == nullptr);
  SetState(ChannelState::kConnecting);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    connect_wanted_ = true;
    connect_hopeless_ = false;
  }
  NotifyBackground();
}

void ChannelImpl::ConnectWhenAllowed() {
  CheckConnection();
  if (connection_ != nullptr || closing_ || !options_error_.ok()) return;
  if (state_ == ChannelState::kConnecting) return;
  if (state_ == ChannelState::kTransientFailure && absl::Now() < retry_time_) {
    return LowerTimer(retry_time_);
  }
  RequestConnect();
}

void ChannelImpl::OnConnected(Connector::Result result) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    connect_result_.emplace(std::move(result));
  }
  if (Post(&connect_result_task_)) ReleaseRole();
}

void ChannelImpl::TakeConnectResult() {
  std::optional<Connector::Result> result;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    std::swap(result, connect_result_);
  }
  CHECK(result.has_value());
  if (result->ok()) {
    Install(**std::move(result));
  } else {
    OnConnectFailed(result->status());
  }
}

void ChannelImpl::Install(std::unique_ptr<ClientConnection> connection) {
  CHECK(connection_ == nullptr);
  CHECK(connection->poller().TryAcquireRole());
  connection_ = std::move(connection);
  backoff_.Reset();
  buffers_.Set(connection_->buffer_source());
  {
    std::lock_guard<std::mutex> lock(mutex_);
    device_ = connection_->device_name();
  }
  SetState(ChannelState::kReady);
  while (!pending_.empty() && !connection_->failed()) {
    Launch(pending_.PopFront());
  }
  NotifyBackground();  // To watch it.
}

void ChannelImpl::OnConnectFailed(const absl::Status& status) {
  const bool hopeless = !absl::IsUnavailable(status);
  connect_error_ = status;
  retry_time_ = absl::Now() + backoff_.Next();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    connect_hopeless_ = hopeless;
  }
  SetState(ChannelState::kTransientFailure);
  FailPending(status, hopeless);
  LowerTimer(retry_time_);
}

void ChannelImpl::FailPending(const absl::Status& status, bool also_patient) {
  IntrusiveList<UnaryCall> patient;
  while (UnaryCall* call = pending_.PopFront()) {
    if (also_patient || !call->context()->wait_for_ready()) {
      call->Fail(status);
    } else {
      patient.PushBack(call);
    }
  }
  while (UnaryCall* call = patient.PopFront()) pending_.PushBack(call);
}

void ChannelImpl::CheckConnection() {
  if (connection_ == nullptr || in_transport_) return;
  const bool drained =
      connection_->draining() && connection_->open_calls() == 0;
  if (!connection_->failed() && !drained) return;
  connection_->poller().ReleaseRole();
  buffers_.Set(transport::BufferSource());
  {
    std::lock_guard<std::mutex> lock(mutex_);
    retired_.push_back(std::move(connection_));
  }
  SetState(ChannelState::kIdle);
  NotifyBackground();
  if (!pending_.empty()) ConnectWhenAllowed();
}

void ChannelImpl::LowerTimer(absl::Time time) {
  if (time >= timer_) return;
  timer_ = time;
  NotifyBackground();
}

void ChannelImpl::RunTimers(absl::Time now) {
  if (now < timer_) return;
  absl::Time next = absl::InfiniteFuture();
  for (UnaryCall* call = pending_.first(); call != nullptr;) {
    UnaryCall* following = call->next;
    if (call->deadline() <= now) {
      pending_.Remove(call);
      call->Fail(absl::DeadlineExceededError(
          connect_error_.ok()
              ? absl::StrCat("not connected to ", target_, " in time")
              : absl::StrCat("not connected to ", target_, " in time; ",
                             connect_error_.message())));
    } else {
      next = std::min(next, call->deadline());
    }
    call = following;
  }
  timer_ = next;
  bool watched;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    watched = watchers_ > 0;
  }
  if (!pending_.empty() || watched) ConnectWhenAllowed();
}

void ChannelImpl::ConnectIfWanted() {
  bool wanted;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    wanted = watchers_ > 0 || std::exchange(connect_asked_, false);
  }
  if (wanted) ConnectWhenAllowed();
}

bool ChannelImpl::WaitForConnected(absl::Time deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  ++watchers_;
  while (state_ != ChannelState::kReady && !connect_hopeless_ &&
         options_error_.ok() && absl::Now() < deadline) {
    NotifyBackgroundLocked();
    state_changed_.wait_until(lock, absl::ToChronoTime(deadline));
  }
  --watchers_;
  return state_ == ChannelState::kReady;
}

ChannelState ChannelImpl::state(bool try_to_connect) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (try_to_connect && state_ == ChannelState::kIdle) {
    connect_asked_ = true;
    NotifyBackgroundLocked();
  }
  return state_;
}

std::string ChannelImpl::device() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return device_;
}

}  // namespace verbena::internal
