#include "rpc/resolvers/dns_follower.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace verbena::internal {

void DnsFollower::TakeWish() {
  if (wished_.exchange(false)) schedule_.OnWish();
}

void DnsFollower::StartLook(absl::Time now) {
  // Wishes until now are granted by this look.
  wished_.store(false);
  schedule_.OnStart(now);
  lookup_ = std::make_unique<DnsLookup>(target_, hosts_, timeout_, now);
}

void DnsFollower::AddSockets(std::vector<pollfd>& sockets) const {
  lookup_->AddSockets(sockets);
}

void DnsFollower::Process(absl::Span<const pollfd> sockets, absl::Time now) {
  lookup_->Process(sockets, now);
  auto answer = lookup_->TakeResult();
  if (!answer.has_value()) return;
  lookup_ = nullptr;
  // Wishes during a look change nothing; those made while the result is passed
  // on count.
  TakeWish();
  on_result_.Call(EndLook(*std::move(answer), now));
}

absl::StatusOr<Resolved> DnsFollower::EndLook(absl::StatusOr<DnsAnswer> answer,
                                              absl::Time now) {
  if (answer.ok()) {
    schedule_.OnAnswer(now, answer->ttl);
    hosts_ = std::move(answer->hosts);
    Resolved resolved;
    resolved.servers = std::move(answer->servers);
    return resolved;
  }
  const absl::Duration pause = schedule_.OnFailure(
      now, std::uniform_real_distribution<double>(-1, 1)(random_));
  return absl::UnavailableError(absl::StrCat(
      answer.status().message(), "; the next attempt is in ",
      absl::FormatDuration(absl::Floor(pause, absl::Milliseconds(1)))));
}

}  // namespace verbena::internal
