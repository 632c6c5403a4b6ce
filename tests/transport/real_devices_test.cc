// Calls of all kinds over devices that offer no more than real ones do.

#include "transport/faulty/real_devices.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/testing/test_device.h"
#include "tests/transport/faulty_fixture.h"
#include "transport/base/endpoint_options.h"

namespace verbena::transport {
namespace {

class RealDevicesTest : public FaultyFixture,
                        public testing::WithParamInterface<DeviceNumbers> {
 protected:
  RealDevicesTest() {
    plan_.BeDevice(GetParam());
    faulty_.SetPlan(plan_);
  }

  FaultPlan plan_;
};

TEST_P(RealDevicesTest, CarriesCalls) {
  const EndpointOptions options = testing_support::TestOptions();
  FaultyServer server(faulty_, options);
  ASSERT_TRUE(server.status().ok()) << server.status();
  const absl::Status status = Use(faulty_.provider(), server.address(), options,
                                  testing_support::kTestTimeout);
  EXPECT_TRUE(status.ok()) << status;
  // Later clients ask for no more than the first one got.
  for (int i = 0; i < 3; ++i) {
    testing_support::TestClient client(*LoneConnection::Connect(
        faulty_.provider(),
        *base::SocketAddress::ParseNumeric(server.address()), options));
    for (const size_t bytes : {0, 30, 90, 200, 220, 5000, 9000, 3 << 20}) {
      EXPECT_TRUE(client.Echo(bytes).ok()) << bytes;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RealDevicesTest,
                         testing::ValuesIn(RealDevices().begin(),
                                           RealDevices().end()),
                         [](const testing::TestParamInfo<DeviceNumbers>& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace verbena::transport
