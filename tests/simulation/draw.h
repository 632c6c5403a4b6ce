// Draw, the random numbers of which scenarios are made.

#ifndef VERBENA_TESTS_SIMULATION_DRAW_H_
#define VERBENA_TESTS_SIMULATION_DRAW_H_

#include <cstdint>
#include <random>

#include "absl/time/time.h"

namespace verbena::simulation {

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  // Below `bound`.
  uint64_t Number(uint64_t bound) { return random_() % bound; }
  bool OneIn(uint64_t count) { return Number(count) == 0; }
  absl::Duration Time(absl::Duration longest) {
    return absl::Microseconds(static_cast<int64_t>(
        Number(static_cast<uint64_t>(absl::ToInt64Microseconds(longest)))));
  }
  // As a generator of the standard library.
  std::mt19937_64& random() { return random_; }

 private:
  std::mt19937_64 random_;
};

}  // namespace verbena::simulation

#endif  // VERBENA_TESTS_SIMULATION_DRAW_H_
