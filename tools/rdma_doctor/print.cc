#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/rdma_doctor/doctor.h"

namespace verbena::doctor {

// Aligns the texts behind the longest name of a check, and indents what belongs
// to a finding below its text.
std::string ToText(const Report& report) {
  size_t width = 0;
  for (const Finding& finding : report.findings()) {
    width = std::max(width, finding.check().size());
  }
  std::string text;
  for (const Finding& finding : report.findings()) {
    // "warning" is the longest of the levels.
    absl::StrAppendFormat(
        &text, "%-7s  %-*s  %s\n", Finding::Level_Name(finding.level()),
        static_cast<int>(width), finding.check(), finding.seen());
    const std::string indent(7 + 2 + width + 2, ' ');
    if (!finding.meaning().empty()) {
      absl::StrAppend(&text, indent, "means: ", finding.meaning(), "\n");
    }
    if (!finding.mend().empty()) {
      absl::StrAppend(&text, indent, "mend:  ", finding.mend(), "\n");
    }
  }
  absl::StrAppend(&text, report.ok(), " ok, ", report.notes(), " notes, ",
                  report.warnings(), " warnings, ", report.errors(),
                  " errors: ",
                  report.errors() > 0 ? "something does not work"
                                      : "everything that was found works",
                  "\n");
  return text;
}

}  // namespace verbena::doctor
