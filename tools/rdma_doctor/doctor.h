// Puts the checks in order.

#ifndef VERBENA_TOOLS_RDMA_DOCTOR_DOCTOR_H_
#define VERBENA_TOOLS_RDMA_DOCTOR_DOCTOR_H_

#include <string>

#include "tools/rdma_doctor/report.pb.h"
#include "tools/rdma_doctor/self_test.h"
#include "tools/rdma_doctor/system_root.h"

namespace verbena::doctor {

struct Options {
  // Of another folder than "" only files are looked at: devices are those of
  // this machine.
  SystemRoot root;
  // Whether to call over each device.
  bool self_test = true;
  // "host:port" of a server to call; empty for none.
  std::string peer;
  // The only device to call over; empty for all.
  std::string device;
  SelfTestOptions calls;
};

// All findings, in the order in which a user would mend them.
Report Examine(const Options& options);

// For people: a line a finding, aligned, and one that counts them. Ends with a
// new line, as the next does.
std::string ToText(const Report& report);
// For programs: see report.proto.
std::string ToJson(const Report& report);

}  // namespace verbena::doctor

#endif  // VERBENA_TOOLS_RDMA_DOCTOR_DOCTOR_H_
