// Functions about this host: its processors, its devices with their addresses,
// and their counters.

#ifndef VERBENA_TOOLS_RPC_BENCH_HOST_H_
#define VERBENA_TOOLS_RPC_BENCH_HOST_H_

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/map.h"
#include "tools/rpc_bench/local_devices.h"  // IWYU pragma: export

namespace verbena::bench {

// Return the processor time that all threads of a process have used: of
// `process`, which runs on this host, and of this process.
absl::StatusOr<absl::Duration> CpuUsedBy(pid_t process);
absl::Duration CpuUsed();

// The processors that this thread may run on, in ascending order.
std::vector<int> AllowedProcessors();

// Keeps this thread, and those that it starts from now on, on one processor.
absl::Status PinTo(int processor);

// Returns the device called `wanted`, or if that is empty the best: the first
// RDMA device (by name) with an address, else the software device. Fails with
// NOT_FOUND for a device that is not there or has no address.
absl::StatusOr<LocalDevice> ChooseLocalDevice(absl::string_view wanted);

// Has CountVerbs() count at the device called `wanted`, or at all devices if
// that is empty. REQUIRES: there are no connections yet.
void CountVerbsOfDevices(absl::string_view wanted);

using Counters = google::protobuf::Map<std::string, double>;

// Adds the counters of the ports of `device`, multiplied by `times`, to
// `counters`. Adds nothing if the device has no counters. `devices` holds a
// directory for each device, with the kernel's layout.
void AddHardwareCounters(const std::string& device, int times,
                         Counters& counters,
                         const std::string& devices = "/sys/class/infiniband");

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_HOST_H_
