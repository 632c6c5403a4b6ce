#include "rpc/resolvers/dns_schedule.h"

#include <algorithm>

namespace verbena::internal {
namespace {

constexpr double kJitter = 0.2;

}  // namespace

void DnsSchedule::OnStart(absl::Time now) {
  state_ = State::kLooking;
  started_ = now;
  next_ = absl::InfiniteFuture();
}

void DnsSchedule::OnAnswer(absl::Time now, absl::Duration ttl) {
  state_ = State::kAnswered;
  backoff_ = absl::ZeroDuration();
  next_ = std::max(now + ttl, started_ + options_.min_interval);
}

absl::Duration DnsSchedule::OnFailure(absl::Time now, double jitter) {
  state_ = State::kFailed;
  backoff_ =
      backoff_ == absl::ZeroDuration()
          ? options_.first_backoff
          : std::min(backoff_ * options_.backoff_factor, options_.max_backoff);
  const absl::Duration pause = backoff_ * (1 + kJitter * jitter);
  next_ = now + pause;
  return pause;
}

void DnsSchedule::OnWish() {
  // During a look the answer comes soon. A failing DNS server would be asked
  // without pauses, because a channel without servers wishes at each call.
  if (state_ != State::kAnswered) return;
  next_ = std::min(next_, started_ + options_.min_interval);
}

}  // namespace verbena::internal
