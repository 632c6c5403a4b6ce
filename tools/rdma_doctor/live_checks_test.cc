#include "tools/rdma_doctor/live_checks.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/rdma_doctor/fake_machine.h"
#include "transport/base/socket_address.h"
#include "transport/device.h"

namespace verbena::doctor {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const transport::Provider& SoftProvider() {
  return transport::ChooseProvider(base::SocketAddress(),
                                   transport::kSoftDevice);
}

// The software device answers as any other does.
class LiveChecksTest : public testing::Test {
 protected:
  LiveChecksTest() : findings_(&report_) {
    machine_.AddDevice("soft0", "uverbs0", "lo");
  }
  std::vector<Device> devices() const { return ReadDevices(machine_.root()); }

  FakeMachine machine_;
  Report report_;
  Findings findings_;
};

TEST_F(LiveChecksTest, OpensDevices) {
  CheckOpening(SoftProvider(), devices(), &findings_);
  EXPECT_EQ(Levels(report_), "open: ok\n");
  EXPECT_THAT(report_.findings(0).seen(), HasSubstr(" queue pairs of "));
  EXPECT_THAT(report_.findings(0).seen(), HasSubstr("; port 1: packets of "));
}

TEST_F(LiveChecksTest, MissesADeviceThatTheKernelHas) {
  machine_.AddPort("mlx5_0", "ens1");
  CheckOpening(SoftProvider(), devices(), &findings_);
  EXPECT_EQ(Levels(report_), "open: ok\nopen: error\n");
  EXPECT_THAT(report_.findings(1).seen(), HasSubstr("1 of 2 devices"));
  EXPECT_THAT(report_.findings(1).mend(), HasSubstr("ibverbs-providers"));
}

TEST_F(LiveChecksTest, FindsTheRoute) {
  CheckRoute(SoftProvider(), devices(), "127.0.0.1:9", &findings_);
  EXPECT_EQ(Levels(report_), "route: ok\n");
  EXPECT_THAT(report_.findings(0).seen(),
              StartsWith("to 127.0.0.1:9: soft port 1, GID "));
}

TEST_F(LiveChecksTest, SaysThatATargetIsNone) {
  CheckRoute(SoftProvider(), devices(), "127.0.0.1:none", &findings_);
  EXPECT_EQ(Levels(report_), "route: error\n");
}

TEST_F(LiveChecksTest, WithoutDevicesThereIsNoRoute) {
  CheckRoute(SoftProvider(), {}, "127.0.0.1:9", &findings_);
  EXPECT_EQ(Levels(report_), "");
}

}  // namespace
}  // namespace verbena::doctor
