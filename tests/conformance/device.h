// The device that the suite runs on, and the verbs objects that hang on it.

#ifndef VERBENA_TESTS_CONFORMANCE_DEVICE_H_
#define VERBENA_TESTS_CONFORMANCE_DEVICE_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "transport/verbs/cm_ops.h"
#include "transport/verbs/test_end.h"
#include "transport/verbs/verbs_ops.h"

namespace verbena::conformance {

inline constexpr uint8_t kPort = 1;

const transport::VerbsOps& Verbs();
const transport::CmOps& Cm();

// The name of the device under test; "soft" for the software device, whatever
// it calls itself, and "soft_tcp" if it reaches its peers by TCP.
std::string DeviceName();

// A new context of the device under test. Aborts if it cannot be opened.
ibv_context* OpenDevice();

// The GID of the device that is the address under test, else its first.
transport::TestGid FindGid(ibv_context* context);

}  // namespace verbena::conformance

#endif  // VERBENA_TESTS_CONFORMANCE_DEVICE_H_
