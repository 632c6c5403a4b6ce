#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "tools/json/proto_json.h"
#include "tools/rdma_doctor/doctor.h"
#include "tools/rdma_doctor/findings.h"

namespace verbena::doctor {
namespace {

using testing::HasSubstr;

Report Sample() {
  Report report;
  Findings findings(&report);
  findings.Ok("ports", "one \"port\"");
  findings.Add(Finding::error, "memlock", "64 KiB", "it fails",
               "ulimit -l unlimited");
  return report;
}

TEST(PrintTest, TextIsAligned) {
  EXPECT_EQ(ToText(Sample()),
            "ok       ports    one \"port\"\n"
            "error    memlock  64 KiB\n"
            "                  means: it fails\n"
            "                  mend:  ulimit -l unlimited\n"
            "1 ok, 0 notes, 0 warnings, 1 errors: something does not work\n");
}

TEST(PrintTest, SaysThatAllWorks) {
  EXPECT_EQ(
      ToText(Report()),
      "0 ok, 0 notes, 0 warnings, 0 errors: everything that was found works\n");
}

TEST(PrintTest, JsonIsReadBackAsItWas) {
  const Report report = Sample();
  const std::string json = tool::ToJson(report, tool::JsonLayout::kIndented);
  EXPECT_THAT(json, HasSubstr("\"level\": \"error\""));
  EXPECT_THAT(json, HasSubstr("\"warnings\": 0"));
  Report read;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(json, &read).ok());
  EXPECT_EQ(read.SerializeAsString(), report.SerializeAsString());
}

}  // namespace
}  // namespace verbena::doctor
