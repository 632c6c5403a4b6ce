// Warnings for a server's operator, about problems that no caller hears of.

#ifndef VERBENA_TRANSPORT_BASE_RARE_WARNING_H_
#define VERBENA_TRANSPORT_BASE_RARE_WARNING_H_

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace verbena::base {

// Logs warnings: one, and then none for ten seconds, however often there is
// cause. Not thread-safe.
class RareWarning {
 public:
  void Say(absl::string_view text);

 private:
  absl::Time silent_until_ = absl::InfinitePast();
};

}  // namespace verbena::base

#endif  // VERBENA_TRANSPORT_BASE_RARE_WARNING_H_
