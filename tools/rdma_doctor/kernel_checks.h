// Checks of the kernel's modules, and of the device nodes that programs open.

#ifndef VERBENA_TOOLS_RDMA_DOCTOR_KERNEL_CHECKS_H_
#define VERBENA_TOOLS_RDMA_DOCTOR_KERNEL_CHECKS_H_

#include <vector>

#include "tools/rdma_doctor/devices.h"
#include "tools/rdma_doctor/findings.h"
#include "tools/rdma_doctor/system_root.h"

namespace verbena::doctor {

// Checks that there is an RDMA device. If not, advises how to get one.
void CheckPresence(const SystemRoot& root, const std::vector<Device>& devices,
                   Findings* findings);
// Checks the modules that programs need, and names the modules that network
// cards lack.
void CheckModules(const SystemRoot& root, const std::vector<Device>& devices,
                  Findings* findings);
// Checks /dev/infiniband/uverbs* of each device.
void CheckNodes(const SystemRoot& root, const std::vector<Device>& devices,
                Findings* findings);
// Warns if a process with an RDMA device must not fork on this kernel.
void CheckFork(const SystemRoot& root, const std::vector<Device>& devices,
               Findings* findings);
// Checks /dev/infiniband/rdma_cm, which programs open to make connections.
void CheckConnectionManager(const SystemRoot& root,
                            const std::vector<Device>& devices,
                            Findings* findings);

}  // namespace verbena::doctor

#endif  // VERBENA_TOOLS_RDMA_DOCTOR_KERNEL_CHECKS_H_
