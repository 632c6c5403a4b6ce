#include "tools/rdma_doctor/findings.h"

namespace verbena::doctor {

// A finding without meaning and remedy.
void Findings::Ok(const std::string& check, const std::string& seen) {
  Add(Finding::ok, check, seen, "");
}

// Counts by level as it adds, so that the report's numbers always fit its
// findings.
void Findings::Add(Finding::Level level, const std::string& check,
                   const std::string& seen, const std::string& meaning,
                   const std::string& mend) {
  Finding& finding = *report_.add_findings();
  finding.set_check(check);
  finding.set_level(level);
  finding.set_seen(seen);
  finding.set_meaning(meaning);
  finding.set_mend(mend);
  switch (level) {
    case Finding::ok:
      return report_.set_ok(report_.ok() + 1);
    case Finding::note:
      return report_.set_notes(report_.notes() + 1);
    case Finding::warning:
      return report_.set_warnings(report_.warnings() + 1);
    default:
      return report_.set_errors(report_.errors() + 1);
  }
}

}  // namespace verbena::doctor
