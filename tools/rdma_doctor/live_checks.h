// Checks that open the devices of this machine, and ask for routes over them.

#ifndef VERBENA_TOOLS_RDMA_DOCTOR_LIVE_CHECKS_H_
#define VERBENA_TOOLS_RDMA_DOCTOR_LIVE_CHECKS_H_

#include <string>
#include <vector>

#include "tools/rdma_doctor/devices.h"
#include "tools/rdma_doctor/findings.h"
#include "transport/verbs/provider.h"

namespace verbena::doctor {

// Opens each device that libibverbs lists, and asks for its capabilities. Adds
// an error if libibverbs lists fewer than `devices`, which come from sysfs.
void CheckOpening(const transport::Provider& provider,
                  const std::vector<Device>& devices, Findings* findings);

// Finds the device, port and GID by which `target`, "host:port", is reached.
// May ask a name server and a neighbour on the wire, and wait for a second.
void CheckRoute(const transport::Provider& provider,
                const std::vector<Device>& devices, const std::string& target,
                Findings* findings);

}  // namespace verbena::doctor

#endif  // VERBENA_TOOLS_RDMA_DOCTOR_LIVE_CHECKS_H_
