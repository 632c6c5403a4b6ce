// Collects what the checks find.

#ifndef VERBENA_TOOLS_RDMA_DOCTOR_FINDINGS_H_
#define VERBENA_TOOLS_RDMA_DOCTOR_FINDINGS_H_

#include <string>

#include "tools/rdma_doctor/report.pb.h"

namespace verbena::doctor {

// Adds to a Report, which must outlive it, and counts.
class Findings {
 public:
  explicit Findings(Report* report) : report_(*report) {}

  // All is as it should be.
  void Ok(const std::string& check, const std::string& seen);
  // See report.proto. `mend` is what to type, or to write where.
  void Add(Finding::Level level, const std::string& check,
           const std::string& seen, const std::string& meaning,
           const std::string& mend = "");

 private:
  Report& report_;
};

}  // namespace verbena::doctor

#endif  // VERBENA_TOOLS_RDMA_DOCTOR_FINDINGS_H_
