// What the kernel must have loaded, and what programs open to get at it.

#ifndef VERBENA_TOOLS_RDMA_DOCTOR_KERNEL_CHECKS_H_
#define VERBENA_TOOLS_RDMA_DOCTOR_KERNEL_CHECKS_H_

#include <vector>

#include "tools/rdma_doctor/devices.h"
#include "tools/rdma_doctor/findings.h"
#include "tools/rdma_doctor/system_root.h"

namespace verbena::doctor {

// Whether there is an RDMA device at all, and without one what to do.
void CheckPresence(const SystemRoot& root, const std::vector<Device>& devices,
                   Findings* findings);
// The modules that programs need, and those of network cards that lack theirs.
void CheckModules(const SystemRoot& root, const std::vector<Device>& devices,
                  Findings* findings);
// /dev/infiniband/uverbs* of each device.
void CheckNodes(const SystemRoot& root, const std::vector<Device>& devices,
                Findings* findings);
// /dev/infiniband/rdma_cm, by which connections are made.
// Warns if a process with an RDMA device must not fork on this kernel.
void CheckFork(const SystemRoot& root, const std::vector<Device>& devices,
               Findings* findings);
void CheckConnectionManager(const SystemRoot& root,
                            const std::vector<Device>& devices,
                            Findings* findings);

}  // namespace verbena::doctor

#endif  // VERBENA_TOOLS_RDMA_DOCTOR_KERNEL_CHECKS_H_
