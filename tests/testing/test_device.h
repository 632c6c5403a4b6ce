// The device and the address that a test uses: any device runs the same tests.

#ifndef VERBENA_TESTS_TESTING_TEST_DEVICE_H_
#define VERBENA_TESTS_TESTING_TEST_DEVICE_H_

#include <string>

#include "absl/time/time.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/socket_address.h"
#include "transport/verbs/provider.h"

namespace verbena::testing_support {

// Far longer than anything takes that works, on an emulated processor too.
inline constexpr absl::Duration kTestTimeout = absl::Seconds(60);

// TestAddress() with port 0, as servers take it.
std::string TestListenAddress();

// The device of VERBENA_DEVICE, else the one that is found for TestAddress().
// Prints which one that is the first time.
const transport::Provider& TestProvider();

// Options with that device.
transport::EndpointOptions TestOptions();

}  // namespace verbena::testing_support

#endif  // VERBENA_TESTS_TESTING_TEST_DEVICE_H_
