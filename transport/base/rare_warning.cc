#include "transport/base/rare_warning.h"

#include <iostream>

#include "absl/strings/str_cat.h"
#include "transport/base/clock.h"

namespace verbena::base {
namespace {

constexpr absl::Duration kSilence = absl::Seconds(10);

}  // namespace

void RareWarning::Say(absl::string_view text) {
  const absl::Time now = base::Now();
  if (now < silent_until_) return;
  silent_until_ = now + kSilence;
  std::cerr << absl::StrCat("verbena: ", text, "\n");
}

}  // namespace verbena::base
