// Log entries about calls that a policy denies.

#ifndef VERBENA_RPC_AUTHORIZATION_DENIAL_LOG_H_
#define VERBENA_RPC_AUTHORIZATION_DENIAL_LOG_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rpc/authorization/authorization_policy.h"
#include "transport/base/mutex.h"

namespace verbena::internal {

// Logs denied calls as warnings, at most kMost in each kPeriod, so that a
// client that is denied a million times does not fill the log. The first entry
// after a gap says how many were left out. Thread-safe.
class DenialLog {
 public:
  static constexpr int kMost = 10;
  static constexpr absl::Duration kPeriod = absl::Seconds(10);

  // `address` is the client's. `rule` is the deny rule that matched; empty if
  // no allow rule did.
  void Note(const PolicyRequest& request, absl::string_view address,
            absl::string_view policy, absl::string_view rule);

  // Counts a call that was denied at `now`, by base::Now(). Returns how many
  // were left out before, if this one is to be logged; nothing otherwise.
  std::optional<int64_t> Count(absl::Time now);

 private:
  base::Mutex mutex_;
  absl::Time period_ends_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  int logged_ ABSL_GUARDED_BY(mutex_) = 0;  // In this period.
  int64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The text of an entry: the method, the client's names and address, the rule.
// Bytes that are not printable are escaped, because clients choose some.
std::string DenialText(const PolicyRequest& request, absl::string_view address,
                       absl::string_view policy, absl::string_view rule);

}  // namespace verbena::internal

#endif  // VERBENA_RPC_AUTHORIZATION_DENIAL_LOG_H_
