#include "tools/rdma_doctor/machine.h"

#include <cstdint>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/rdma_doctor/fake_machine.h"

namespace verbena::doctor {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string LevelsOfContainer(const FakeMachine& machine, bool has_devices,
                              Report* report) {
  Findings findings(report);
  CheckContainer(machine.root(), has_devices, &findings);
  return Levels(*report);
}

TEST(MachineTest, TellsContainersByTheirMarks) {
  FakeMachine machine;
  EXPECT_FALSE(IsInContainer(machine.root()));
  machine.Write("/proc/1/cgroup", "0::/init.scope\n");
  EXPECT_FALSE(IsInContainer(machine.root()));
  machine.Write("/proc/1/cgroup", "0::/docker/0a1b\n");
  EXPECT_TRUE(IsInContainer(machine.root()));
  machine.Remove("/proc/1/cgroup");
  machine.Write("/run/.containerenv", "");
  EXPECT_TRUE(IsInContainer(machine.root()));
  EXPECT_FALSE(IsInKubernetes(machine.root()));
  EXPECT_THAT(HowToGetDevices(machine.root()), HasSubstr("docker run"));
  machine.Write("/proc/self/environ", "KUBERNETES_SERVICE_HOST=10.0.0.1");
  EXPECT_TRUE(IsInKubernetes(machine.root()));
  EXPECT_THAT(HowToGetDevices(machine.root()), HasSubstr("rdma/hca"));
}

TEST(MachineTest, ReadsTheStatusOfTheProcess) {
  FakeMachine machine;
  EXPECT_FALSE(MayLockAnyMemory(machine.root()));
  machine.Write("/proc/self/status",
                "Name:\tx\nCapEff:\t0000000000004000\n"
                "Cpus_allowed_list:\t0-1\n");
  EXPECT_TRUE(MayLockAnyMemory(machine.root()));
  EXPECT_EQ(ProcessStatus(machine.root(), "Cpus_allowed_list"), "0-1");
  EXPECT_EQ(ProcessStatus(machine.root(), "Cpus"), "");
  machine.Write("/proc/self/status", "CapEff:\t00000000ffffbfff\n");
  EXPECT_FALSE(MayLockAnyMemory(machine.root()));
}

TEST(MachineTest, ReadsLimits) {
  FakeMachine machine;
  EXPECT_FALSE(ReadLimit(machine.root(), "Max locked memory").has_value());
  machine.SetMemlock("65536", "unlimited");
  const auto limit = ReadLimit(machine.root(), "Max locked memory");
  ASSERT_TRUE(limit.has_value());
  EXPECT_EQ(limit->soft, uint64_t{65536});
  EXPECT_EQ(limit->hard, std::nullopt);
  EXPECT_FALSE(ReadLimit(machine.root(), "Max locked").has_value() &&
               ReadLimit(machine.root(), "Max locked")->soft.has_value());
}

TEST(MachineTest, ParsesRanges) {
  EXPECT_THAT(ParseRanges("0-2,8,10-11"), ElementsAre(0, 1, 2, 8, 10, 11));
  EXPECT_THAT(ParseRanges("x,-3,5-1"), IsEmpty());
  EXPECT_THAT(ParseRanges(""), IsEmpty());
}

TEST(CheckContainerTest, WantsTheDevicesOfTheHost) {
  FakeMachine machine;
  Report outside;
  EXPECT_EQ(LevelsOfContainer(machine, true, &outside), "container: ok\n");
  machine.Write("/.dockerenv", "");
  Report without;
  EXPECT_EQ(LevelsOfContainer(machine, true, &without), "container: error\n");
  EXPECT_THAT(without.findings(0).mend(), HasSubstr("/dev/infiniband"));
  Report none;
  EXPECT_EQ(LevelsOfContainer(machine, false, &none), "container: ok\n");
  machine.MakeFolder("/dev/infiniband");
  Report with;
  EXPECT_EQ(LevelsOfContainer(machine, true, &with), "container: ok\n");
}

TEST(CheckContainerTest, KnowsThatDevicesMayBeElsewhere) {
  FakeMachine machine;
  const std::string file = "/sys/module/ib_core/parameters/netns_mode";
  machine.Write("/.dockerenv", "");
  machine.Write(file, "Y\n");
  Report shared;
  EXPECT_EQ(LevelsOfContainer(machine, false, &shared), "container: ok\n");
  machine.Write(file, "N\n");
  Report apart;
  EXPECT_EQ(LevelsOfContainer(machine, false, &apart), "container: note\n");
  EXPECT_THAT(apart.findings(0).mend(), HasSubstr("netns shared"));
}

TEST(CheckContainerTest, ListsThePluginsOfANode) {
  FakeMachine machine;
  const std::string folder = "/var/lib/kubelet/device-plugins";
  machine.Write(folder + "/kubelet.sock", "");
  Report none;
  EXPECT_EQ(LevelsOfContainer(machine, true, &none),
            "kubernetes: note\ncontainer: ok\n");
  machine.Write(folder + "/rdma-shared.sock", "");
  Report one;
  EXPECT_EQ(LevelsOfContainer(machine, true, &one),
            "kubernetes: ok\ncontainer: ok\n");
  EXPECT_THAT(one.findings(0).seen(), HasSubstr("rdma-shared.sock"));
}

}  // namespace
}  // namespace verbena::doctor
