// Follows one name for one channel.

#ifndef VERBENA_RPC_RESOLVERS_DNS_FOLLOWER_H_
#define VERBENA_RPC_RESOLVERS_DNS_FOLLOWER_H_

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rpc/resolver.h"
#include "rpc/resolvers/dns_lookup.h"
#include "rpc/resolvers/dns_schedule.h"
#include "rpc/resolvers/dns_target.h"
#include "rpc/resolvers/revocable_callback.h"
#include "transport/base/clock.h"

namespace verbena::internal {

// Shared by the channel's resolver, which may call Wish() and Leave() on any
// thread, and by the DnsWorker, which calls all else on its own.
class DnsFollower {
 public:
  DnsFollower(DnsTarget target, const DnsOptions& options,
              Resolver::OnResult on_result)
      : target_(std::move(target)),
        timeout_(options.timeout),
        schedule_(options),
        on_result_(std::move(on_result)) {}

  // Asks for a look soon. Returns whether the worker must be woken for it.
  bool Wish() { return !wished_.exchange(true); }
  // Ends. The function for results is not called after this, and is destroyed.
  // Waits only while it runs.
  void Leave() { on_result_.Revoke(); }
  bool left() const { return on_result_.revoked(); }

  bool looking() const { return lookup_ != nullptr; }
  // When the next look is due.
  absl::Time due() const { return schedule_.next(); }
  // Takes note of a Wish().
  void TakeWish();

  // Starts a look. REQUIRES: !looking().
  void StartLook(absl::Time now);
  // As those of DnsLookup. REQUIRES: looking().
  void AddSockets(std::vector<pollfd>& sockets) const;
  absl::Time NextTime(absl::Time now) const { return lookup_->NextTime(now); }
  // Goes on with the look, and passes its result on if it ends.
  void Process(absl::Span<const pollfd> sockets, absl::Time now);

 private:
  absl::StatusOr<Resolved> EndLook(absl::StatusOr<DnsAnswer> answer,
                                   absl::Time now);
  // Followers of one moment get different seeds: they differ in their places.
  std::minstd_rand Seeded(int64_t moment) const {
    const auto place = reinterpret_cast<uintptr_t>(this);
    std::seed_seq mixed{static_cast<uint32_t>(moment),
                        static_cast<uint32_t>(place),
                        static_cast<uint32_t>(place >> 32)};
    return std::minstd_rand(mixed);
  }

  const DnsTarget target_;
  const absl::Duration timeout_;
  std::atomic<bool> wished_ = false;

  // Worker thread only.
  DnsSchedule schedule_;
  DnsHosts hosts_;  // From the last answer.
  std::unique_ptr<DnsLookup> lookup_;
  // For pauses that differ between clients.
  std::minstd_rand random_ = Seeded(base::NowNanos());

  RevocableCallback<absl::StatusOr<Resolved>> on_result_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_RESOLVERS_DNS_FOLLOWER_H_
