#include "tools/rpc_bench/local_device.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/device.h"

namespace verbena::bench {
namespace {

using testing::HasSubstr;

TEST(LocalDevicesTest, HaveTheContextThatConnectionsGet) {
  const transport::Provider& soft = *transport::ListenProviders("soft").front();
  const std::vector<LocalDevice> devices = LocalDevices(soft);
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].name, "soft");
  EXPECT_EQ(devices[0].address, "127.0.0.1:0");
  ASSERT_NE(devices[0].context, nullptr);
  EXPECT_EQ(LocalDevices(soft)[0].context, devices[0].context);
}

TEST(ChooseLocalDeviceTest, IsTheOneThatIsWanted) {
  const absl::StatusOr<LocalDevice> device = ChooseLocalDevice("soft");
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ(device->name, "soft");
  EXPECT_EQ(device->address, "127.0.0.1:0");
}

TEST(ChooseLocalDeviceTest, IsThereWithoutAWish) {
  EXPECT_TRUE(ChooseLocalDevice("").ok());
}

TEST(ChooseLocalDeviceTest, FailsForADeviceThatIsNotThere) {
  const absl::Status status = ChooseLocalDevice("nonesuch0").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("no device \"nonesuch0\" on this"));
  EXPECT_THAT(status.message(), HasSubstr("soft"));
}

}  // namespace
}  // namespace verbena::bench
