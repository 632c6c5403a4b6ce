#include "tools/rdma_doctor/findings.h"

#include "gtest/gtest.h"

namespace verbena::doctor {
namespace {

TEST(FindingsTest, AreCountedByLevel) {
  Report report;
  Findings findings(&report);
  findings.Ok("a", "seen");
  findings.Add(Finding::note, "b", "seen", "meaning", "mend");
  findings.Add(Finding::warning, "c", "seen", "meaning");
  findings.Add(Finding::warning, "c", "seen", "meaning");
  findings.Add(Finding::error, "d", "seen", "meaning", "mend");
  EXPECT_EQ(report.findings_size(), 5);
  EXPECT_EQ(report.ok(), 1);
  EXPECT_EQ(report.notes(), 1);
  EXPECT_EQ(report.warnings(), 2);
  EXPECT_EQ(report.errors(), 1);
  EXPECT_EQ(report.findings(4).check(), "d");
  EXPECT_EQ(report.findings(4).mend(), "mend");
}

}  // namespace
}  // namespace verbena::doctor
