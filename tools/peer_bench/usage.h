// The processor time and context switches of a process.

#ifndef VERBENA_TOOLS_PEER_BENCH_USAGE_H_
#define VERBENA_TOOLS_PEER_BENCH_USAGE_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace verbena::peers {

// The usage of all threads of a process, including those that have ended.
struct Usage {
  int64_t cpu_ns = 0;       // Processor time, in user space and in the kernel.
  int64_t voluntary = 0;    // Context switches because a thread waited.
  int64_t involuntary = 0;  // Context switches because others had their turn.
};

Usage OwnUsage();

// Asks the process at the other end of `socket` for its usage so far. That
// process must be in AnswerQuestions(). Fails if it has ended.
absl::StatusOr<Usage> UsageOfPeer(int socket);

// Answers each question on standard input with the usage of this process, on
// standard output. Returns at the end of standard input.
void AnswerQuestions();

Usage operator-(const Usage& later, const Usage& earlier);

}  // namespace verbena::peers

#endif  // VERBENA_TOOLS_PEER_BENCH_USAGE_H_
