#include "tools/rpc_bench/local_device.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace verbena::bench {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;

// A host whose devices and addresses the test makes up.
class LocalDeviceTest : public testing::Test {
 protected:
  LocalDeviceTest() : root_(std::string(std::getenv("TEST_TMPDIR")) + "/host") {
    fs::remove_all(root_);
    host_.devices = root_ / "devices";
    host_.connection_manager = root_ / "rdma_cm";
    host_.interface_address = [this](const std::string& name) {
      return addresses_[name];
    };
    Write("rdma_cm", "");
  }

  void Write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }

  void AddDevice(const std::string& name, const std::string& interface,
                 const std::string& state = "4: ACTIVE") {
    const std::string port = "devices/" + name + "/ports/1/";
    Write(port + "state", state);
    Write(port + "gid_attrs/ndevs/0", interface);
  }

  // "NAME at ADDRESS", or the message of the failure.
  std::string Choose(const std::string& wanted = "") {
    const absl::StatusOr<LocalDevice> device = ChooseLocalDevice(wanted, host_);
    if (device.ok()) return device->name + " at " + device->address;
    EXPECT_EQ(device.status().code(), absl::StatusCode::kNotFound);
    return std::string(device.status().message());
  }

  const fs::path root_;
  Host host_;
  std::map<std::string, std::string> addresses_;  // By interface.
};

TEST_F(LocalDeviceTest, IsSoftWithoutAnRdmaDevice) {
  EXPECT_EQ(Choose(), "soft at 127.0.0.1");
}

TEST_F(LocalDeviceTest, IsTheRdmaDeviceThatHasAnAddress) {
  AddDevice("mlx5_0", "eth0");
  AddDevice("rxe0", "eth1");
  addresses_["eth1"] = "10.0.0.1";
  EXPECT_EQ(Choose(), "rxe0 at 10.0.0.1");
}

TEST_F(LocalDeviceTest, IsFoundByIpOverInfiniBand) {
  Write("devices/mlx4_0/ports/1/state", "4: ACTIVE");
  Write("devices/mlx4_0/device/net/ib0/mtu", "2044");
  addresses_["ib0"] = "10.1.0.1";
  EXPECT_EQ(Choose(), "mlx4_0 at 10.1.0.1");
}

TEST_F(LocalDeviceTest, IsNotOneWhosePortIsDown) {
  AddDevice("rxe0", "eth0", "1: DOWN");
  addresses_["eth0"] = "10.0.0.1";
  EXPECT_EQ(Choose(), "soft at 127.0.0.1");
}

TEST_F(LocalDeviceTest, IsSoftWhenTheProcessMayNotUseRdma) {
  AddDevice("rxe0", "eth0");
  addresses_["eth0"] = "10.0.0.1";
  fs::remove(host_.connection_manager);
  EXPECT_EQ(Choose(), "soft at 127.0.0.1");
}

TEST_F(LocalDeviceTest, IsTheOneThatIsWanted) {
  AddDevice("rxe0", "eth0");
  AddDevice("rxe1", "eth1");
  addresses_["eth0"] = "10.0.0.1";
  addresses_["eth1"] = "[fd00::1]";
  EXPECT_EQ(Choose("rxe1"), "rxe1 at [fd00::1]");
  EXPECT_EQ(Choose("soft"), "soft at 127.0.0.1");
}

TEST_F(LocalDeviceTest, FailsForADeviceThatIsNotThere) {
  AddDevice("rxe0", "eth0");
  EXPECT_EQ(Choose("mlx5_0"),
            "no device \"mlx5_0\" on this host; there are: rxe0, soft");
}

TEST_F(LocalDeviceTest, FailsForADeviceWithoutAnAddress) {
  AddDevice("rxe0", "eth0");
  EXPECT_THAT(Choose("rxe0"), HasSubstr("device \"rxe0\" has no active port"));
}

TEST(InterfaceAddressTest, KnowsTheLoopback) {
  EXPECT_EQ(InterfaceAddress("lo"), "127.0.0.1");
  EXPECT_EQ(InterfaceAddress("no such interface"), "");
}

}  // namespace
}  // namespace verbena::bench
