#include "tools/rdma_doctor/devices.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/rdma_doctor/fake_machine.h"

namespace verbena::doctor {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

TEST(DevicesTest, AreReadWithTheirPortsAndGids) {
  FakeMachine machine;
  machine.AddDevice("mlx5_0", "uverbs3", "ens1");
  const std::vector<Device> devices = ReadDevices(machine.root());
  ASSERT_THAT(devices, SizeIs(1));
  EXPECT_EQ(devices[0].name, "mlx5_0");
  EXPECT_EQ(devices[0].uverbs, "uverbs3");
  ASSERT_THAT(devices[0].ports, SizeIs(1));
  const Port& port = devices[0].ports[0];
  EXPECT_EQ(port.name(), "mlx5_0 port 1");
  EXPECT_EQ(port.state, "ACTIVE");
  EXPECT_EQ(port.physical_state, "LinkUp");
  EXPECT_EQ(port.netdev, "ens1");
  EXPECT_TRUE(port.is_ethernet());
  EXPECT_TRUE(port.HasIpGid());
  ASSERT_THAT(port.gids, SizeIs(2));
  EXPECT_EQ(port.gids[1].index, 1);
  EXPECT_EQ(port.gids[1].type, "RoCE v2");
  EXPECT_EQ(port.gids[1].IpAddress(), "10.0.0.7");
}

TEST(DevicesTest, OfAMachineWithoutRdmaAreNone) {
  EXPECT_THAT(ReadDevices(FakeMachine().root()), IsEmpty());
}

TEST(DevicesTest, TellTheirNetworkInterfaceWithoutAGid) {
  FakeMachine machine;
  machine.AddPort("rxe0", "eth7");
  machine.Remove("/sys/class/infiniband/rxe0/ports/1/gids");
  machine.Remove("/sys/class/infiniband/rxe0/ports/1/gid_attrs");
  EXPECT_EQ(ReadDevices(machine.root())[0].ports[0].netdev, "");
  machine.Write("/sys/class/infiniband/rxe0/parent", "eth7\n");
  EXPECT_EQ(ReadDevices(machine.root())[0].ports[0].netdev, "eth7");
}

TEST(GidTest, StandsForAnAddressUnlessItIsOfALink) {
  const auto address = [](const std::string& value) {
    return Gid{0, value, ""}.IpAddress();
  };
  EXPECT_EQ(address("0000:0000:0000:0000:0000:ffff:0a4d:0001"), "10.77.0.1");
  EXPECT_EQ(address("fd00:0000:0000:0000:0000:0000:0000:0007"), "fd00::7");
  EXPECT_EQ(address("fe80:0000:0000:0000:0000:0000:0000:0001"), "");
  EXPECT_EQ(address("nonsense"), "");
}

TEST(NetdevForRxeTest, IsOneThatIsUp) {
  FakeMachine machine;
  EXPECT_EQ(NetdevForRxe(machine.root()), "eth0");
  machine.Write("/sys/class/net/docker0/operstate", "up\n");
  machine.Write("/sys/class/net/enp1/operstate", "down\n");
  machine.Write("/sys/class/net/enp2/operstate", "up\n");
  machine.Write("/sys/class/net/lo/operstate", "unknown\n");
  EXPECT_EQ(NetdevForRxe(machine.root()), "enp2");
}

}  // namespace
}  // namespace verbena::doctor
