#include "rpc/internal/client/retries.h"

#include <algorithm>

#include "rpc/internal/client/pushback.h"
#include "transport/base/clock.h"

namespace verbena::internal {
namespace {

// Each pause is off by up to a fifth, as gRPC's are.
constexpr double kJitter = 0.2;

}  // namespace

Retries::Retries(SharedPoller* poller,
                 std::function<void(OpenCall*, absl::Time)> wake)
    : poller_(*poller),
      wake_(std::move(wake)),
      timer_([this](absl::Time now) { OnTime(now); }),
      random_(static_cast<uint32_t>(poller->NewSeed())) {}

std::optional<absl::Duration> Retries::Next(RetryState* state,
                                            const absl::Status& status,
                                            const Metadata& trailing) {
  if (!state->policy->codes.Contains(status.code())) return std::nullopt;
  return Next(state, ReadPushback(trailing));
}

std::optional<absl::Duration> Retries::NextAfterTimeout(RetryState* state) {
  return Next(state, Pushback());
}

std::optional<absl::Duration> Retries::Next(RetryState* state,
                                            const Pushback& pushback) {
  const RetryPolicy& policy = *state->policy;
  if (!throttle_.NoteFailure() || state->committed || pushback.never ||
      state->attempts >= policy.max_attempts) {
    return std::nullopt;
  }
  ++state->attempts;
  if (pushback.wait.has_value()) {
    state->next_backoff = policy.initial_backoff;
    return pushback.wait;
  }
  const absl::Duration pause =
      std::min(state->next_backoff, policy.max_backoff);
  state->next_backoff = pause * policy.backoff_multiplier;
  return pause *
         std::uniform_real_distribution(1 - kJitter, 1 + kJitter)(random_);
}

// Ordered as they came, not by their addresses: so a simulation repeats itself.
Retries::Wake Retries::WakeAt(OpenCall* call, absl::Time due) {
  const Wake wake(due, next_order_++);
  due_.emplace(wake, call);
  poller_.LowerTimer(&timer_, due);
  return wake;
}

std::vector<OpenCall*> Retries::RemoveAll() {
  poller_.CancelTimer(&timer_);
  std::vector<OpenCall*> all;
  for (const auto& [wake, call] : due_) all.push_back(call);
  due_.clear();
  return all;
}

void Retries::OnTime(absl::Time now) {
  while (!due_.empty() && due_.begin()->first.first <= now) {
    OpenCall* const call = due_.begin()->second;
    due_.erase(due_.begin());
    wake_(call, now);
  }
  if (!due_.empty()) poller_.LowerTimer(&timer_, due_.begin()->first.first);
}

}  // namespace verbena::internal
