// What the ports of devices are connected to, and how well.

#ifndef VERBENA_TOOLS_RDMA_DOCTOR_PORT_CHECKS_H_
#define VERBENA_TOOLS_RDMA_DOCTOR_PORT_CHECKS_H_

#include <vector>

#include "tools/rdma_doctor/devices.h"
#include "tools/rdma_doctor/findings.h"
#include "tools/rdma_doctor/system_root.h"

namespace verbena::doctor {

// A port that does not work is an error only if none does: most machines have
// ports that nobody uses.

// Whether there is a link.
void CheckPorts(const SystemRoot& root, const std::vector<Device>& devices,
                Findings* findings);
// Whether an Ethernet port has addresses, and of which version of RoCE.
void CheckGids(const SystemRoot& root, const std::vector<Device>& devices,
               Findings* findings);
// How long packets can be.
void CheckMtu(const SystemRoot& root, const std::vector<Device>& devices,
              Findings* findings);
// Whether the network is told to slow senders down, or loses packets.
void CheckCongestion(const SystemRoot& root, const std::vector<Device>& devices,
                     Findings* findings);
// Whether this process may run near the device.
void CheckNuma(const SystemRoot& root, const std::vector<Device>& devices,
               Findings* findings);

}  // namespace verbena::doctor

#endif  // VERBENA_TOOLS_RDMA_DOCTOR_PORT_CHECKS_H_
