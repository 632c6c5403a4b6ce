#include "tools/rdma_doctor/port_checks.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/rdma_doctor/fake_machine.h"

namespace verbena::doctor {
namespace {

using testing::HasSubstr;

constexpr char kPort[] = "/sys/class/infiniband/mlx5_0/ports/1";

class PortChecksTest : public testing::Test {
 protected:
  using Check = void (*)(const SystemRoot&, const std::vector<Device>&,
                         Findings*);

  PortChecksTest() { machine_.AddDevice("mlx5_0", "uverbs0", "ens1"); }

  std::string Run(Check check) {
    report_.Clear();
    Findings findings(&report_);
    const SystemRoot root = machine_.root();
    check(root, ReadDevices(root), &findings);
    return Levels(report_);
  }
  std::string Seen() const { return report_.findings(0).seen(); }
  std::string Mend() const { return report_.findings(0).mend(); }

  FakeMachine machine_;
  Report report_;
};

TEST_F(PortChecksTest, AnActivePortIsWell) {
  EXPECT_EQ(Run(CheckPorts), "ports: ok\n");
  EXPECT_EQ(Seen(),
            "mlx5_0 port 1 is ACTIVE, LinkUp, Ethernet, 100 Gb/sec (4X EDR), "
            "on ens1");
}

TEST_F(PortChecksTest, TheOnlyPortMustNotBeDown) {
  machine_.Write(std::string(kPort) + "/state", "1: DOWN\n");
  machine_.Remove("/sys/class/net/ens1/carrier");
  EXPECT_EQ(Run(CheckPorts), "ports: error\n");
  EXPECT_EQ(Mend(), "ip link set ens1 up");
  machine_.Write("/sys/class/net/ens1/carrier", "0\n");
  EXPECT_EQ(Run(CheckPorts), "ports: error\n");
  EXPECT_THAT(Mend(), HasSubstr("cable"));
}

TEST_F(PortChecksTest, OneOfTwoPortsMay) {
  machine_.AddPort("mlx5_0", "ens2", 2);
  machine_.Write(std::string(kPort) + "/state", "1: DOWN\n");
  EXPECT_EQ(Run(CheckPorts), "ports: warning\nports: ok\n");
}

TEST_F(PortChecksTest, InfiniBandWaitsForASubnetManager) {
  machine_.Write(std::string(kPort) + "/link_layer", "InfiniBand\n");
  machine_.Write(std::string(kPort) + "/state", "2: INIT\n");
  EXPECT_EQ(Run(CheckPorts), "ports: error\n");
  EXPECT_THAT(Mend(), HasSubstr("opensm"));
  EXPECT_EQ(Run(CheckGids), "");
}

TEST_F(PortChecksTest, ShowsWhichGidsThereAre) {
  EXPECT_EQ(Run(CheckGids), "gids: ok\n");
  EXPECT_EQ(Seen(), "mlx5_0 port 1 has index 1: 10.0.0.7 (RoCE v2)");
}

TEST_F(PortChecksTest, NoGidOfAnAddressIsAnError) {
  machine_.Remove(std::string(kPort) + "/gids/1");
  EXPECT_EQ(Run(CheckGids), "gids: error\n");
  EXPECT_THAT(Mend(), HasSubstr("ip address add 10.0.0.1/24 dev ens1"));
  machine_.AddPort("mlx5_0", "ens2", 2);
  EXPECT_EQ(Run(CheckGids), "gids: warning\ngids: ok\n");
}

TEST_F(PortChecksTest, VersionOneAloneIsWarnedOf) {
  machine_.Write(std::string(kPort) + "/gid_attrs/types/1", "IB/RoCE v1\n");
  EXPECT_EQ(Run(CheckGids), "gids: warning\n");
  EXPECT_EQ(Mend(), "");
}

TEST_F(PortChecksTest, SoIsConnectingByVersionOne) {
  const std::string file =
      "/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode";
  machine_.Write(file, "RoCE v2\n");
  EXPECT_EQ(Run(CheckGids), "gids: ok\n");
  machine_.Write(file, "IB/RoCE v1\n");
  EXPECT_EQ(Run(CheckGids), "gids: warning\n");
  EXPECT_EQ(Mend(), "echo 'RoCE v2' >" + file);
}

TEST_F(PortChecksTest, ShortPacketsAreNoted) {
  EXPECT_EQ(Run(CheckMtu), "mtu: ok\n");
  machine_.Write("/sys/class/net/ens1/mtu", "1500\n");
  EXPECT_EQ(Run(CheckMtu), "mtu: note\n");
  EXPECT_THAT(Mend(), HasSubstr("ip link set ens1 mtu 4200"));
}

TEST_F(PortChecksTest, ReadsEcnWhereTheDriverSays) {
  EXPECT_EQ(Run(CheckCongestion), "ecn: note\n");
  EXPECT_THAT(Mend(), HasSubstr("dcb pfc show dev ens1"));
  const std::string folder = "/sys/class/net/ens1/ecn/roce_np/enable";
  machine_.Write(folder + "/0", "0\n");
  machine_.Write(folder + "/3", "0\n");
  EXPECT_EQ(Run(CheckCongestion), "ecn: warning\n");
  machine_.Write(folder + "/3", "1\n");
  EXPECT_EQ(Run(CheckCongestion), "ecn: ok\n");
}

TEST_F(PortChecksTest, CountsWhatWasLost) {
  machine_.Write("/sys/class/infiniband/mlx5_0/parent", "ens1\n");
  machine_.Write(std::string(kPort) + "/hw_counters/out_of_sequence", "0\n");
  EXPECT_EQ(Run(CheckCongestion), "");
  machine_.Write(std::string(kPort) + "/hw_counters/out_of_sequence", "12\n");
  EXPECT_EQ(Run(CheckCongestion), "losses: note\n");
  EXPECT_THAT(Seen(), HasSubstr("out_of_sequence 12"));
}

TEST_F(PortChecksTest, AProcessShouldRunNearTheDevice) {
  EXPECT_EQ(Run(CheckNuma), "");
  const std::string node = "/sys/class/infiniband/mlx5_0/device/numa_node";
  machine_.Write(node, "-1\n");
  EXPECT_EQ(Run(CheckNuma), "");
  machine_.Write(node, "1\n");
  machine_.Write("/sys/devices/system/node/node1/cpulist", "4-7\n");
  machine_.Write("/proc/self/status", "Cpus_allowed_list:\t4-5\n");
  EXPECT_EQ(Run(CheckNuma), "numa: ok\n");
  machine_.Write("/proc/self/status", "Cpus_allowed_list:\t0-7\n");
  EXPECT_EQ(Run(CheckNuma), "numa: note\n");
  machine_.Write("/proc/self/status", "Cpus_allowed_list:\t0-3\n");
  EXPECT_EQ(Run(CheckNuma), "numa: warning\n");
  EXPECT_EQ(Mend(), "numactl --cpunodebind=1 --membind=1 PROGRAM");
}

}  // namespace
}  // namespace verbena::doctor
