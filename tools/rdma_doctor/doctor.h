// Runs all checks, and turns their findings into text or JSON.

#ifndef VERBENA_TOOLS_RDMA_DOCTOR_DOCTOR_H_
#define VERBENA_TOOLS_RDMA_DOCTOR_DOCTOR_H_

#include <string>

#include "tools/rdma_doctor/report.pb.h"
#include "tools/rdma_doctor/self_test.h"
#include "tools/rdma_doctor/system_root.h"
#include "tools/rdma_doctor/tls_checks.h"

namespace verbena::doctor {

struct Options {
  // The folder to examine. If it is not "", only its files are read, because
  // the devices that could be opened belong to this machine.
  SystemRoot root;
  // Whether to call over each device.
  bool self_test = true;
  // "host:port" of a server to call; empty for none.
  std::string peer;
  // Files of TLS to check; empty for none.
  TlsFiles tls;
  // The only device to call over; empty for all.
  std::string device;
  SelfTestOptions calls;
};

// Returns all findings, in the order in which a user would mend them.
Report Examine(const Options& options);

// Returns a text for people: one aligned line for each finding, then a line
// that counts them.
std::string ToText(const Report& report);

}  // namespace verbena::doctor

#endif  // VERBENA_TOOLS_RDMA_DOCTOR_DOCTOR_H_
