// What this process may take of the machine.

#ifndef VERBENA_TOOLS_RDMA_DOCTOR_LIMIT_CHECKS_H_
#define VERBENA_TOOLS_RDMA_DOCTOR_LIMIT_CHECKS_H_

#include "tools/rdma_doctor/findings.h"
#include "tools/rdma_doctor/system_root.h"

namespace verbena::doctor {

// Memory that may be locked, by this shell and by services of systemd. Without
// devices nothing is locked, and no limit is too low.
void CheckMemlock(const SystemRoot& root, bool has_devices, Findings* findings);
// Descriptors and threads.
void CheckUlimits(const SystemRoot& root, Findings* findings);
// What the control group allows of RDMA objects and of memory.
void CheckCgroups(const SystemRoot& root, Findings* findings);
// Pages of 2 MiB, which Verbena takes for large memory where there are any.
void CheckHugePages(const SystemRoot& root, Findings* findings);

}  // namespace verbena::doctor

#endif  // VERBENA_TOOLS_RDMA_DOCTOR_LIMIT_CHECKS_H_
