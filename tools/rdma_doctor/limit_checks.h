// Checks of the limits on this process's memory, descriptors and threads.

#ifndef VERBENA_TOOLS_RDMA_DOCTOR_LIMIT_CHECKS_H_
#define VERBENA_TOOLS_RDMA_DOCTOR_LIMIT_CHECKS_H_

#include "tools/rdma_doctor/findings.h"
#include "tools/rdma_doctor/system_root.h"

namespace verbena::doctor {

// Checks how much memory this shell and services of systemd may lock. Without
// devices nothing is locked, so no limit is too low.
void CheckMemlock(const SystemRoot& root, bool has_devices, Findings* findings);
// Checks the limits on descriptors and threads.
void CheckUlimits(const SystemRoot& root, Findings* findings);
// Checks how many RDMA objects, and how much memory, the control group allows.
void CheckCgroups(const SystemRoot& root, Findings* findings);
// Checks for pages of 2 MiB, reserved or transparent. If there are any, Verbena
// uses them for large memory.
void CheckHugePages(const SystemRoot& root, Findings* findings);

}  // namespace verbena::doctor

#endif  // VERBENA_TOOLS_RDMA_DOCTOR_LIMIT_CHECKS_H_
