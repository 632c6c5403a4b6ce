// Decides when a name is looked up.

#ifndef VERBENA_RPC_RESOLVERS_DNS_SCHEDULE_H_
#define VERBENA_RPC_RESOLVERS_DNS_SCHEDULE_H_

#include "absl/time/time.h"
#include "rpc/resolvers/dns_resolver.h"

namespace verbena::internal {

// The times of one name's looks. Times are of base::Now(). Not thread-safe.
class DnsSchedule {
 public:
  explicit DnsSchedule(const DnsOptions& options) : options_(options) {}

  // When the next look is due; the infinite future during a look.
  absl::Time next() const { return next_; }

  // A look starts.
  void OnStart(absl::Time now);
  // The look ends with an answer whose least TTL is `ttl`.
  void OnAnswer(absl::Time now, absl::Duration ttl);
  // The look fails. Returns the pause until the next one. `jitter` is random,
  // between -1 and 1.
  absl::Duration OnFailure(absl::Time now, double jitter);
  // Somebody calls ResolveNow().
  void OnWish();

 private:
  enum class State { kLooking, kAnswered, kFailed };

  const DnsOptions options_;
  State state_ = State::kFailed;
  absl::Time started_ = absl::InfinitePast();
  absl::Time next_ = absl::InfinitePast();
  // Without the jitter; zero after an answer.
  absl::Duration backoff_ = absl::ZeroDuration();
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_RESOLVERS_DNS_SCHEDULE_H_
