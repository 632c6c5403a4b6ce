// What this process does to the processors.

#ifndef VERBENA_TOOLS_RPC_BENCH_PROCESS_H_
#define VERBENA_TOOLS_RPC_BENCH_PROCESS_H_

#include <sys/types.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace verbena::bench {

// Time that all threads of this process have spent on processors.
absl::Duration CpuUsed();
// The same of another process of this host.
absl::StatusOr<absl::Duration> CpuUsedBy(pid_t process);

// The processors that this thread may run on, in ascending order.
std::vector<int> AllowedProcessors();

// Keeps this thread, and those that it starts from now on, on one processor.
absl::Status PinTo(int processor);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_PROCESS_H_
