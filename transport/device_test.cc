#include "transport/device.h"

#include <stdlib.h>

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/socket_address.h"

namespace verbena::transport {
namespace {

using ::testing::HasSubstr;

TEST(DeviceTest, KnowsTheDevicesThatThereAre) {
  EXPECT_EQ(CheckDevice(""), absl::OkStatus());
  EXPECT_EQ(CheckDevice("soft"), absl::OkStatus());
}

TEST(DeviceTest, NamesADeviceThatIsNotThereAndThoseThatAre) {
  const absl::Status status = CheckDevice("mlx99");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  const std::string text(status.message());
  EXPECT_THAT(text, HasSubstr("\"mlx99\""));
  EXPECT_THAT(text, HasSubstr("VERBENA_DEVICE"));
  EXPECT_THAT(text, HasSubstr("has: soft"));
}

TEST(DeviceTest, TheOptionIsStrongerThanTheEnvironment) {
  ASSERT_EQ(setenv(kDeviceVariable, "mlx99", 1), 0);
  EndpointOptions options;
  EXPECT_EQ(WantedDevice(options), "mlx99");
  options.device = "soft";
  EXPECT_EQ(WantedDevice(options), "soft");
}

TEST(DeviceTest, OnlyTheSoftDeviceAsksForNothingAndOnlyAtHome) {
  const Provider& soft = *ListenProviders("soft").front();
  const auto address = [](const char* text) {
    return *base::SocketAddress::ParseNumeric(text);
  };
  EXPECT_TRUE(IsCheapToAsk(soft, address("127.0.0.1:1")));
  EXPECT_FALSE(IsCheapToAsk(soft, address("192.0.2.1:1")));
  EXPECT_FALSE(
      IsCheapToAsk(*ListenProviders("mlx99").front(), address("127.0.0.1:1")));
}

}  // namespace
}  // namespace verbena::transport
