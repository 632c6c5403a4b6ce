// Checks of marks: the code points (DSCP) of packets of RoCE.

#ifndef VERBENA_TOOLS_RDMA_DOCTOR_MARK_CHECKS_H_
#define VERBENA_TOOLS_RDMA_DOCTOR_MARK_CHECKS_H_

#include <vector>

#include "tools/rdma_doctor/devices.h"
#include "tools/rdma_doctor/findings.h"
#include "tools/rdma_doctor/system_root.h"

namespace verbena::doctor {

// Says for each Ethernet port which mark its packets get, and by which the NIC
// chooses their priority.
void CheckMarks(const SystemRoot& root, const std::vector<Device>& devices,
                Findings* findings);

}  // namespace verbena::doctor

#endif  // VERBENA_TOOLS_RDMA_DOCTOR_MARK_CHECKS_H_
