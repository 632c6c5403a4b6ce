// Calls over the devices, and how long they take.

#ifndef VERBENA_TOOLS_RDMA_DOCTOR_SELF_TEST_H_
#define VERBENA_TOOLS_RDMA_DOCTOR_SELF_TEST_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/rdma_doctor/report.pb.h"

namespace verbena::doctor {

struct SelfTestOptions {
  int calls = 100;                            // Small calls to measure.
  absl::Duration timeout = absl::Seconds(5);  // The timeout of each call.
};

// Serves at `address`, "host:port", on the device called `device`, and calls
// that server from this process. Port 0 is any free port.
absl::StatusOr<Measurement> MeasureDevice(const std::string& device,
                                          const std::string& address,
                                          const SelfTestOptions& options);

// Calls the server at `target`, whatever it offers, on the device called
// `device`. If that is "", the channel chooses the device.
absl::StatusOr<Measurement> MeasurePeer(const std::string& device,
                                        const std::string& target,
                                        const SelfTestOptions& options);

}  // namespace verbena::doctor

#endif  // VERBENA_TOOLS_RDMA_DOCTOR_SELF_TEST_H_
