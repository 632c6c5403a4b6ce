#include "tests/testing/seed_range.h"

#include <cstdio>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace verbena::testing_support {

SeedRange ParseSeedRange(int argc, char** argv) {
  SeedRange range;
  bool counted = false;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    uint64_t* number = nullptr;
    if (absl::ConsumePrefix(&argument, "--seeds=")) {
      number = &range.count;
      counted = true;
    } else if (absl::ConsumePrefix(&argument, "--seed=")) {
      number = &range.first;
      if (!counted) range.count = 1;
    }
    if (number == nullptr || !absl::SimpleAtoi(argument, number)) {
      std::fprintf(stderr,
                   "unknown argument %s; there are --seed=N, --seeds=N\n",
                   argv[i]);
      std::exit(2);
    }
    range.longest = absl::InfiniteDuration();
  }
  return range;
}

}  // namespace verbena::testing_support
