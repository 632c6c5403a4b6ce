#include "tests/conformance/differences.h"

#include <cstdio>
#include <string>

#include "absl/strings/match.h"
#include "tests/conformance/device.h"

namespace verbena::conformance {
namespace {

constexpr char kRxe[] = "rxe";

constexpr Difference kDifferences[] = {
    {kRxe, Promise::kResetMayGoToError, "EINVAL",
     "the kernel's table of transitions has no way from RESET to ERR"},
};

}  // namespace

absl::Span<const Difference> Differences() { return kDifferences; }

bool Keeps(Promise promise) {
  static const std::string* const device = new std::string(DeviceName());
  for (const Difference& difference : kDifferences) {
    if (difference.promise != promise ||
        !absl::StartsWith(*device, difference.device)) {
      continue;
    }
    std::printf("on %s instead: %s (%s)\n", device->c_str(),
                std::string(difference.instead).c_str(),
                std::string(difference.why).c_str());
    return false;
  }
  return true;
}

}  // namespace verbena::conformance
