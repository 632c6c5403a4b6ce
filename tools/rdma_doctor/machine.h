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
// In a container: how to start it so that it has the RDMA devices.
std::string HowToGetDevices(const SystemRoot& root);

// A line of /proc/self/status without its name: "Cpus_allowed_list".
std::string ProcessStatus(const SystemRoot& root, absl::string_view name);
// Whether limits on locked memory do not hold for this process.
bool MayLockAnyMemory(const SystemRoot& root);

// A resource limit, as /proc/self/limits has it; nothing for no limit.
struct Limit {
  std::optional<uint64_t> soft;
  std::optional<uint64_t> hard;
};
// Nothing if the kernel does not tell of `name`: "Max locked memory".
std::optional<Limit> ReadLimit(const SystemRoot& root, absl::string_view name);

// "0-3,8" as numbers; what makes no sense is left out.
std::set<int> ParseRanges(absl::string_view text);

// Containers and what they were given.
void CheckContainer(const SystemRoot& root, bool has_devices,
                    Findings* findings);

}  // namespace verbena::doctor

#endif  // VERBENA_TOOLS_RDMA_DOCTOR_MACHINE_H_
