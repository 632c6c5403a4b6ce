#include "rpc/internal/client/retries.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "transport/base/clock.h"

namespace verbena::internal {
namespace {

// A server's word on when to try again, in milliseconds. Anything but a number
// that is not negative means never.
constexpr absl::string_view kPushbackKey = "grpc-retry-pushback-ms";

// Each pause is off by up to a fifth, as gRPC's are.
constexpr double kJitter = 0.2;

}  // namespace

Retries::Retries(SharedPoller* poller, std::function<void(OpenCall*)> again)
    : poller_(*poller),
      again_(std::move(again)),
      timer_([this](absl::Time now) { OnTime(now); }),
      random_(static_cast<uint32_t>(poller->NewSeed())) {}

std::optional<absl::Duration> Retries::Next(RetryState* state,
                                            const absl::Status& status,
                                            const Metadata& trailing) {
  const RetryPolicy& policy = *state->policy;
  const auto pushback = trailing.find(kPushbackKey);
  int64_t wait_ms = -1;
  const bool has_pushback = pushback != trailing.end();
  const bool never =
      has_pushback &&
      (!absl::SimpleAtoi(pushback->second, &wait_ms) || wait_ms < 0);
  if (!policy.codes.Contains(status.code())) return std::nullopt;
  if (!throttle_.NoteFailure() || never ||
      state->attempts >= policy.max_attempts) {
    return std::nullopt;
  }
  ++state->attempts;
  if (has_pushback) {
    state->next_backoff = policy.initial_backoff;
    return absl::Milliseconds(wait_ms);
  }
  const absl::Duration pause =
      std::min(state->next_backoff, policy.max_backoff);
  state->next_backoff = pause * policy.backoff_multiplier;
  return pause *
         std::uniform_real_distribution(1 - kJitter, 1 + kJitter)(random_);
}

void Retries::Keep(RetryState* state, absl::Duration pause,
                   absl::Time deadline) {
  state->due = std::min(base::Now() + pause, deadline);
  pauses_.emplace(state->due, state);
  poller_.LowerTimer(&timer_, state->due);
}

std::vector<OpenCall*> Retries::RemoveAll() {
  poller_.CancelTimer(&timer_);
  std::vector<OpenCall*> all;
  for (const auto& [due, state] : pauses_) all.push_back(state->call);
  pauses_.clear();
  return all;
}

void Retries::OnTime(absl::Time now) {
  while (!pauses_.empty() && pauses_.begin()->first <= now) {
    OpenCall* const call = pauses_.begin()->second->call;
    pauses_.erase(pauses_.begin());
    again_(call);
  }
  if (!pauses_.empty()) poller_.LowerTimer(&timer_, pauses_.begin()->first);
}

}  // namespace verbena::internal
