#include "rpc/resolvers/dns_follower.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace verbena::internal {

void DnsFollower::Leave() {
  Resolver::OnResult unused;  // Destroyed without the lock: it is the user's.
  const base::MutexLock lock(mutex_);
  left_ = true;
  while (passing_on_) returned_.Wait(mutex_);
  std::swap(unused, on_result_);
}

bool DnsFollower::left() const {
  const base::MutexLock lock(mutex_);
  return left_;
}

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
  PassOn(EndLook(*std::move(answer), now));
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

// Holds no lock during the call, so that the channel may take its own.
void DnsFollower::PassOn(absl::StatusOr<Resolved> result) {
  base::MutexLock lock(mutex_);
  if (left_) return;
  passing_on_ = true;
  // Leave() does not destroy the function while this is set.
  const Resolver::OnResult* const on_result = &on_result_;
  lock.Unlock();
  (*on_result)(std::move(result));
  lock.Lock();
  passing_on_ = false;
  returned_.NotifyAll();
}

}  // namespace verbena::internal
