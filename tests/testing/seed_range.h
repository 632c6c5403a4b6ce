// The seeds that a program of random tests runs, from its command line.

#ifndef VERBENA_TESTS_TESTING_SEED_RANGE_H_
#define VERBENA_TESTS_TESTING_SEED_RANGE_H_

#include <cstdint>

#include "absl/time/time.h"

namespace verbena::testing_support {

struct SeedRange {
  uint64_t first = 1;
  uint64_t count = 1000;
  absl::Duration longest = absl::Seconds(5);  // Real time for all of them.
};

// "--seeds=10000": so many, however long it takes; "--seed=17": that one alone,
// or with --seeds so many from it on; else some seconds from 1 on. A wrong flag
// ends the program: see ReadCommandLine().
SeedRange ParseSeedRange(int argc, char** argv);

}  // namespace verbena::testing_support

#endif  // VERBENA_TESTS_TESTING_SEED_RANGE_H_
