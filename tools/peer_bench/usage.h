// What a process has cost so far.

#ifndef VERBENA_TOOLS_PEER_BENCH_USAGE_H_
#define VERBENA_TOOLS_PEER_BENCH_USAGE_H_

#include <cstdint>

namespace verbena::peers {

// Of all threads of a process, those that have ended included.
struct Usage {
  int64_t cpu_ns = 0;       // Processor time, in user space and in the kernel.
  int64_t voluntary = 0;    // Context switches because a thread waited.
  int64_t involuntary = 0;  // Context switches because others had their turn.
};

Usage OwnUsage();

Usage operator-(const Usage& later, const Usage& earlier);

}  // namespace verbena::peers

#endif  // VERBENA_TOOLS_PEER_BENCH_USAGE_H_
