// Collects the findings of the checks.

#ifndef VERBENA_TOOLS_RDMA_DOCTOR_FINDINGS_H_
#define VERBENA_TOOLS_RDMA_DOCTOR_FINDINGS_H_

#include <string>

#include "tools/rdma_doctor/report.pb.h"

namespace verbena::doctor {

// Adds to a Report, which must outlive it, and counts.
class Findings {
 public:
  explicit Findings(Report* report) : report_(*report) {}

  // Adds a finding that says that all is well.
  void Ok(const std::string& check, const std::string& seen);
  // Adds a finding: see report.proto. `mend` is a command to type, or a text to
  // write and where.
  void Add(Finding::Level level, const std::string& check,
           const std::string& seen, const std::string& meaning,
           const std::string& mend = "");

 private:
  Report& report_;
};

}  // namespace verbena::doctor

#endif  // VERBENA_TOOLS_RDMA_DOCTOR_FINDINGS_H_
