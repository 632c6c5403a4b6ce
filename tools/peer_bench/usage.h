// The processor time and context switches of a process.

#ifndef VERBENA_TOOLS_PEER_BENCH_USAGE_H_
#define VERBENA_TOOLS_PEER_BENCH_USAGE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "tools/child/child_process.h"

namespace verbena::peers {

// The usage of all threads of a process, including those that have ended.
struct Usage {
  int64_t cpu_ns = 0;       // Processor time, in user space and in the kernel.
  int64_t voluntary = 0;    // Context switches because a thread waited.
  int64_t involuntary = 0;  // Context switches because others had their turn.
};

Usage OwnUsage();

// Asks `process`, which is in AnswerQuestions(), for its usage so far. Fails if
// it has ended.
absl::StatusOr<Usage> UsageOf(tools::ChildProcess& process);

// Answers each line of standard input with the usage of this process, as a line
// of standard output. Returns at the end of standard input.
void AnswerQuestions();

Usage operator-(const Usage& later, const Usage& earlier);

}  // namespace verbena::peers

#endif  // VERBENA_TOOLS_PEER_BENCH_USAGE_H_
