// What this process does to the host's processors, and what the host counts at
// a device.

#ifndef VERBENA_TOOLS_RPC_BENCH_HOST_H_
#define VERBENA_TOOLS_RPC_BENCH_HOST_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace verbena::bench {

// Time that all threads of this process have spent on processors.
absl::Duration CpuUsed();
// Time that another process of this host has spent on processors.
absl::StatusOr<absl::Duration> CpuUsedBy(pid_t process);

// The processors that this thread may run on, in ascending order.
std::vector<int> AllowedProcessors();

// Keeps this thread, and those that it starts from now on, on one processor.
absl::Status PinTo(int processor);

using Counters = std::map<std::string, int64_t>;

// Sums over the ports of `device`; empty if it counts nothing. `devices` holds
// a directory for each device, laid out as the kernel does.
Counters HardwareCounters(const std::string& device,
                          const std::string& devices = "/sys/class/infiniband");

// How much each of `after` is more than in `before`.
Counters CounterGrowth(const Counters& before, const Counters& after);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_HOST_H_
