#include "tests/testing/seed_range.h"

#include "absl/flags/flag.h"
#include "tools/command_line/parse_flags.h"

ABSL_FLAG(uint64_t, seed, 1, "the first seed; alone, the only one");
ABSL_FLAG(uint64_t, seeds, 1, "how many, however long they take");

namespace verbena::testing_support {

SeedRange ParseSeedRange(int argc, char** argv) {
  const tool::CommandLine line = tool::ReadCommandLine(
      argc, argv, {.name = argv[0], .about = " runs tests from seeds\n"});
  if (line.given.empty()) return {};
  return {.first = absl::GetFlag(FLAGS_seed),
          .count = absl::GetFlag(FLAGS_seeds),
          .longest = absl::InfiniteDuration()};
}

}  // namespace verbena::testing_support
