#include "transport/base/rare_warning.h"

#include "transport/base/clock.h"
#include "transport/base/log.h"

namespace verbena::base {
namespace {

constexpr absl::Duration kSilence = absl::Seconds(10);

}  // namespace

void RareWarning::Say(absl::string_view text) {
  const absl::Time now = base::Now();
  if (now < silent_until_) return;
  silent_until_ = now + kSilence;
  Log::OfProcess().Write(LogSeverity::kWarning, text);
}

}  // namespace verbena::base
