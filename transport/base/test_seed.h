// The seed of tests that use random numbers.

#ifndef VERBENA_TRANSPORT_BASE_TEST_SEED_H_
#define VERBENA_TRANSPORT_BASE_TEST_SEED_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace verbena::base {

// 1, or the environment variable TEST_RANDOM_SEED, which `bazel test
// --runs_per_test=N` sets to another number in each run. Prints it, so that a
// failure can be repeated with `--test_env=TEST_RANDOM_SEED=N`.
inline uint32_t TestSeed() {
  const char* const text = std::getenv("TEST_RANDOM_SEED");
  const uint32_t seed =
      text == nullptr ? 1
                      : static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
  std::printf("TEST_RANDOM_SEED=%u\n", seed);
  return seed;
}

}  // namespace verbena::base

#endif  // VERBENA_TRANSPORT_BASE_TEST_SEED_H_
