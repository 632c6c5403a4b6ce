// The text of gRPC's proposal A6 about hedging, as a program.

#ifndef VERBENA_TESTS_DIFFERENTIAL_HEDGING_MODEL_H_
#define VERBENA_TESTS_DIFFERENTIAL_HEDGING_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/differential/schedule.h"

namespace verbena::differential {

struct HedgingRules {
  int max_attempts = 2;
  absl::Duration delay;
  std::vector<absl::StatusCode> non_fatal;
  // In thousandths of tokens; no throttling if max_tokens is 0.
  int64_t max_tokens = 0;
  int64_t token_ratio = 0;
};

struct HedgingSchedule {
  HedgingRules rules;
  Schedule schedule;  // Its config says the same as `rules`.
};

// Draws calls whose servers answer at once, or never. Delays and deadlines are
// `patience` times as long.
HedgingSchedule DrawHedging(uint64_t seed, int patience);

// Returns what the calls come to by the text.
Outcome OutcomeByA6(const HedgingSchedule& hedging);

}  // namespace verbena::differential

#endif  // VERBENA_TESTS_DIFFERENTIAL_HEDGING_MODEL_H_
