// The result of an exploration, and what tests expect of it.

#ifndef VERBENA_TESTS_MODEL_EXPLORATION_H_
#define VERBENA_TESTS_MODEL_EXPLORATION_H_

#include <cstdint>
#include <string>
#include <vector>

namespace verbena::model {

struct Limits {
  uint64_t max_states = 400'000'000;
  // Whether to look if each state leads to an end. It takes 8 bytes a step.
  bool seeks_ends = true;
};

struct Exploration {
  uint64_t states = 0;
  uint64_t steps = 0;
  uint32_t depth = 0;  // Steps to the farthest state.
  bool whole = false;  // No state was left out, nor the rest of them.
  double seconds = 0;  // Processor time.
  std::string wrong;   // The rule that was broken first; empty if none was.
  std::vector<std::string> trace;  // The shortest way to that.
};

// Returns the processor time of the process.
double ProcessorSeconds();

// Expects, as GoogleTest has it, that nothing is wrong. Prints the figures.
void ExpectRight(const char* model, const Exploration& exploration);

// Expects that the exploration found this rule broken. Prints the trace with
// --traces.
void ExpectWrong(const char* wrong, const Exploration& exploration);

}  // namespace verbena::model

#endif  // VERBENA_TESTS_MODEL_EXPLORATION_H_
