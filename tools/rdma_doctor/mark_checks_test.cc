#include "tools/rdma_doctor/mark_checks.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/rdma_doctor/fake_machine.h"

namespace verbena::doctor {
namespace {

using testing::HasSubstr;

class MarkChecksTest : public testing::Test {
 protected:
  MarkChecksTest() { machine_.AddDevice("mlx5_0", "uverbs0", "ens1"); }

  std::string Run() {
    report_.Clear();
    Findings findings(&report_);
    const SystemRoot root = machine_.root();
    CheckMarks(root, ReadDevices(root), &findings);
    return Levels(report_);
  }
  std::string Seen(int i) const { return report_.findings(i).seen(); }
  std::string Mend(int i) const { return report_.findings(i).mend(); }

  FakeMachine machine_;
  Report report_;
};

TEST_F(MarkChecksTest, ShowsTheDefaultOfTheConnectionManager) {
  EXPECT_EQ(Run(), "marks: ok\nmarks: note\n");
  EXPECT_EQ(Seen(0),
            "mlx5_0 port 1 gives packets code point 0 (traffic class 0) if a "
            "program asks for no other");
  machine_.Write("/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos",
                 "106\n");
  EXPECT_EQ(Run(), "marks: ok\nmarks: note\n");
  EXPECT_THAT(Seen(0), HasSubstr("code point 26 (traffic class 106)"));
}

TEST_F(MarkChecksTest, AnOverrideOfTheDriverWins) {
  const std::string file = "/sys/class/infiniband/mlx5_0/tc/1/traffic_class";
  machine_.Write(file, "");
  EXPECT_EQ(Run(), "marks: ok\nmarks: note\n");
  machine_.Write(file, "src=10.0.0.7 tclass=32\n");
  EXPECT_EQ(Run(), "marks: ok\nmarks: note\n");
  machine_.Write(file, "Global tclass=160\nsrc=10.0.0.7 tclass=32\n");
  EXPECT_EQ(Run(), "marks: note\nmarks: note\n");
  EXPECT_EQ(Seen(0),
            "mlx5_0 port 1 gives all packets code point 40 (traffic class "
            "160)");
  EXPECT_THAT(Mend(0), HasSubstr("echo tclass=-1 >" + file));
}

TEST_F(MarkChecksTest, ShowsWhatTheNicTrustsWhereTheDriverSays) {
  Run();
  EXPECT_THAT(Seen(1), HasSubstr("no file says whether ens1"));
  EXPECT_THAT(Mend(1), HasSubstr("dcb app show dev ens1"));
  const std::string file = "/sys/class/net/ens1/qos/trust";
  machine_.Write(file, "dscp\n");
  Run();
  EXPECT_THAT(Seen(1), HasSubstr("ens1 chooses priorities by code points"));
  EXPECT_THAT(Mend(1), HasSubstr("dcb ets show dev ens1"));
  machine_.Write(file, "pcp\n");
  Run();
  EXPECT_THAT(Seen(1), HasSubstr("by pcp, not by code points"));
  EXPECT_THAT(Mend(1), HasSubstr("mlnx_qos -i ens1 --trust=dscp"));
}

TEST_F(MarkChecksTest, RxeHasNoPrioritiesOfItsOwn) {
  machine_.Write("/sys/class/infiniband/mlx5_0/parent", "ens1\n");
  EXPECT_EQ(Run(), "marks: ok\n");
}

TEST_F(MarkChecksTest, InfiniBandHasNoCodePoints) {
  machine_.Write("/sys/class/infiniband/mlx5_0/ports/1/link_layer",
                 "InfiniBand\n");
  EXPECT_EQ(Run(), "");
}

}  // namespace
}  // namespace verbena::doctor
