// What the devices of this machine answer to whoever uses them.

#ifndef VERBENA_TOOLS_RDMA_DOCTOR_LIVE_CHECKS_H_
#define VERBENA_TOOLS_RDMA_DOCTOR_LIVE_CHECKS_H_

#include <string>
#include <vector>

#include "tools/rdma_doctor/devices.h"
#include "tools/rdma_doctor/findings.h"
#include "transport/verbs/provider.h"

namespace verbena::doctor {

// Opens each device that sysfs knows, and asks it what it can do.
void CheckOpening(const transport::Provider& provider,
                  const std::vector<Device>& devices, Findings* findings);

// Which device, port and GID the way to `target`, "host:port", takes. May ask a
// name server and a neighbour on the wire, and wait a second for them.
void CheckRoute(const transport::Provider& provider,
                const std::vector<Device>& devices, const std::string& target,
                Findings* findings);

}  // namespace verbena::doctor

#endif  // VERBENA_TOOLS_RDMA_DOCTOR_LIVE_CHECKS_H_
