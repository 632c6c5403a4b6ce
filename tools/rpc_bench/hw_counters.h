// What a device counts by itself.

#ifndef VERBENA_TOOLS_RPC_BENCH_HW_COUNTERS_H_
#define VERBENA_TOOLS_RPC_BENCH_HW_COUNTERS_H_

#include <cstdint>
#include <map>
#include <string>

namespace verbena::bench {

using Counters = std::map<std::string, int64_t>;

// Sums over the ports of `device`; empty if it counts nothing. `devices` holds
// a directory for each device, laid out as the kernel does.
Counters HardwareCounters(const std::string& device,
                          const std::string& devices = "/sys/class/infiniband");

// How much each of `after` is more than in `before`.
Counters CounterGrowth(const Counters& before, const Counters& after);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_HW_COUNTERS_H_
