#include "tests/testing/test_device.h"

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "tests/testing/child_process.h"
#include "transport/base/check.h"
#include "transport/device.h"

namespace verbena::testing_support {

std::string TestListenAddress() { return absl::StrCat(TestAddress(), ":0"); }

const transport::Provider& TestProvider() {
  static const transport::Provider* const provider = [] {
    const absl::StatusOr<base::SocketAddress> address =
        base::SocketAddress::ParseNumeric(TestListenAddress());
    CHECK(address.ok()) << address.status().ToString();
    const std::string device = transport::WantedDevice({});
    const transport::Provider& chosen =
        transport::ChooseProvider(*address, device);
    std::printf("provider: %s, device: %s, address: %s\n", chosen.name,
                device.empty() ? "the one with the address" : device.c_str(),
                TestAddress().c_str());
    return &chosen;
  }();
  return *provider;
}

transport::EndpointOptions TestOptions() {
  transport::EndpointOptions options;
  options.device = transport::WantedDevice({});
  if (options.device.empty() &&
      TestProvider().name == std::string(transport::kSoftDevice)) {
    options.device = std::string(transport::kSoftDevice);
  }
  // An emulated processor needs its time, and many tests make connections.
  options.connect_timeout = absl::Seconds(30);
  // Programs are run a second time with both, which meet in many places.
  options.revoke_leases = std::getenv("VERBENA_TEST_REVOKE_LEASES") != nullptr;
  options.checksum = options.revoke_leases;
  return options;
}

}  // namespace verbena::testing_support
