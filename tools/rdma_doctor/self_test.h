// Calls over the devices, and how long they take.

#ifndef VERBENA_TOOLS_RDMA_DOCTOR_SELF_TEST_H_
#define VERBENA_TOOLS_RDMA_DOCTOR_SELF_TEST_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/rdma_doctor/report.pb.h"

namespace verbena::doctor {

struct SelfTestOptions {
  int calls = 100;                            // Small ones, to be measured.
  absl::Duration timeout = absl::Seconds(5);  // Of each call.
};

// Serves at `address`, "host:port" with port 0 for any, on the device of that
// name, and calls that from this process.
absl::StatusOr<Measurement> MeasureDevice(const std::string& device,
                                          const std::string& address,
                                          const SelfTestOptions& options);

// Calls the server at `target`, whatever it offers, on the device of that name;
// "" is the one that a channel takes by itself.
absl::StatusOr<Measurement> MeasurePeer(const std::string& device,
                                        const std::string& target,
                                        const SelfTestOptions& options);

}  // namespace verbena::doctor

#endif  // VERBENA_TOOLS_RDMA_DOCTOR_SELF_TEST_H_
