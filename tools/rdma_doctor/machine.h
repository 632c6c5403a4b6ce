// Where this process runs: in a container, as a service, with which rights.

#ifndef VERBENA_TOOLS_RDMA_DOCTOR_MACHINE_H_
#define VERBENA_TOOLS_RDMA_DOCTOR_MACHINE_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "tools/rdma_doctor/findings.h"
#include "tools/rdma_doctor/system_root.h"

namespace verbena::doctor {

bool IsInContainer(const SystemRoot& root);
bool IsInKubernetes(const SystemRoot& root);
// Returns how to start this container so that it has the RDMA devices.
// REQUIRES: IsInContainer().
std::string HowToGetDevices(const SystemRoot& root);

// Returns the line of /proc/self/status called `name`, without the name.
std::string ProcessStatus(const SystemRoot& root, absl::string_view name);
// Whether limits on locked memory do not hold for this process.
bool MayLockAnyMemory(const SystemRoot& root);

// A resource limit, as /proc/self/limits has it; nothing for no limit.
struct Limit {
  std::optional<uint64_t> soft;
  std::optional<uint64_t> hard;
};
// Returns the limit called `name`, like "Max locked memory", or nothing if the
// kernel has no such limit.
std::optional<Limit> ReadLimit(const SystemRoot& root, absl::string_view name);

// Returns the numbers in a list like "0-3,8". Skips parts that are not valid.
std::set<int> ParseRanges(absl::string_view text);

// Checks whether this process is in a container that lacks devices. On a
// Kubernetes node, checks for device plugins.
void CheckContainer(const SystemRoot& root, bool has_devices,
                    Findings* findings);

}  // namespace verbena::doctor

#endif  // VERBENA_TOOLS_RDMA_DOCTOR_MACHINE_H_
