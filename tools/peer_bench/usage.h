// What a process has cost so far.

#ifndef VERBENA_TOOLS_PEER_BENCH_USAGE_H_
#define VERBENA_TOOLS_PEER_BENCH_USAGE_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace verbena::peers {

// Of all threads of a process, those that have ended included.
struct Usage {
  int64_t cpu_ns = 0;       // Processor time, in user space and in the kernel.
  int64_t voluntary = 0;    // Context switches because a thread waited.
  int64_t involuntary = 0;  // Context switches because others had their turn.
};

Usage OwnUsage();

// What the process at the other end of `socket` has cost so far, which answers
// by AnswerQuestions(). Fails if it is gone.
absl::StatusOr<Usage> UsageOfPeer(int socket);

// Says to standard output what this process has cost whenever it is asked on
// standard input, until that ends.
void AnswerQuestions();

Usage operator-(const Usage& later, const Usage& earlier);

}  // namespace verbena::peers

#endif  // VERBENA_TOOLS_PEER_BENCH_USAGE_H_
