// Checks of the ports of devices: links, addresses, MTUs, congestion and NUMA.

#ifndef VERBENA_TOOLS_RDMA_DOCTOR_PORT_CHECKS_H_
#define VERBENA_TOOLS_RDMA_DOCTOR_PORT_CHECKS_H_

#include <vector>

#include "tools/rdma_doctor/devices.h"
#include "tools/rdma_doctor/findings.h"
#include "tools/rdma_doctor/system_root.h"

namespace verbena::doctor {

// If a port does not work, that is an error only if no other port works either,
// because most machines have unused ports.

// Checks that ports have links.
void CheckPorts(const SystemRoot& root, const std::vector<Device>& devices,
                Findings* findings);
// Checks that Ethernet ports have addresses, and of which version of RoCE.
void CheckGids(const SystemRoot& root, const std::vector<Device>& devices,
               Findings* findings);
// Checks how long packets can be.
void CheckMtu(const SystemRoot& root, const std::vector<Device>& devices,
              Findings* findings);
// Checks whether the network slows senders down, or loses packets.
void CheckCongestion(const SystemRoot& root, const std::vector<Device>& devices,
                     Findings* findings);
// Checks whether this process may run near each device.
void CheckNuma(const SystemRoot& root, const std::vector<Device>& devices,
               Findings* findings);

}  // namespace verbena::doctor

#endif  // VERBENA_TOOLS_RDMA_DOCTOR_PORT_CHECKS_H_
