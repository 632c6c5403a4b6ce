// The tests of a program that runs scenarios from seeds.
//
//   PROGRAM                       some seconds of seeds from 1 on
//   PROGRAM --seeds=10000         so many, however long it takes
//   PROGRAM --seed=17             that one again, with its trace
//   PROGRAM --seed=17 --seeds=9   nine from it on

#ifndef VERBENA_TESTS_SIMULATION_SEED_TESTS_H_
#define VERBENA_TESTS_SIMULATION_SEED_TESTS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/time/time.h"

namespace verbena::simulation {

struct SeedTests {
  // Runs a seed, and returns its trace. The current test fails if something is
  // wrong.
  std::function<std::string(uint64_t seed)> run;
  // Checks, after all seeds, what can't be seen in one of them. May be null.
  std::function<void()> check_all = nullptr;
  // Real time for all seeds if the command line names none.
  absl::Duration longest = absl::Seconds(5);
  // Seeds that are run twice.
  uint64_t repeated = 20;
};

// Runs the program's tests: those that are linked, and `tests`. Returns the
// exit status. From main() only.
int RunSeedTests(int argc, char** argv, const SeedTests& tests);

// Whether the command line names a single seed.
bool RunsOneSeed();

}  // namespace verbena::simulation

#endif  // VERBENA_TESTS_SIMULATION_SEED_TESTS_H_
