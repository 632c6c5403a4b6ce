#include "tools/rdma_doctor/self_test.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "grpc/health/v1/health.pb.h"
#include "grpc/health/v1/health.verbena.h"
#include "rpc/channel.h"
#include "rpc/channel_options.h"
#include "rpc/client_context.h"
#include "rpc/metrics.h"
#include "rpc/server.h"
#include "rpc/server_builder.h"
#include "rpc/services/health_service.h"
#include "transport/base/status_macros.h"

namespace verbena::doctor {
namespace {

using grpc::health::v1::HealthCheckResponse;
using HealthStub = grpc::health::v1::Health::Stub;

constexpr size_t kLargeBytes = size_t{1} << 20;

// How long one call takes, with so many bytes beside its request.
absl::StatusOr<absl::Duration> TimeCall(HealthStub& stub,
                                        const SelfTestOptions& options,
                                        absl::Span<const uint8_t> attachment) {
  ClientContext context;
  context.set_timeout(options.timeout);
  if (!attachment.empty()) context.set_request_attachment(attachment);
  HealthCheckResponse response;
  const absl::Time start = absl::Now();
  const absl::Status status = stub.Check(&context, {}, &response);
  const absl::Duration time = absl::Now() - start;
  // A server without the service answers with one of these two codes.
  if (!status.ok() && !absl::IsUnimplemented(status) &&
      !absl::IsNotFound(status)) {
    return status;
  }
  return time;
}

// Calls the health service. The first call connects, and its time is reported
// as that.
absl::StatusOr<Measurement> Measure(const std::string& device,
                                    const std::string& target,
                                    const SelfTestOptions& options,
                                    bool with_large) {
  ChannelOptions of_channel;
  of_channel.device = device;
  const std::shared_ptr<Channel> channel = CreateChannel(target, of_channel);
  HealthStub stub(channel);
  Measurement result;
  ASSIGN_OR_RETURN(const absl::Duration first, TimeCall(stub, options, {}));
  result.set_connect_us(absl::ToDoubleMicroseconds(first));
  const ChannelMetrics metrics = channel->GetMetrics();
  result.set_device(metrics.device);
  result.set_fabric(metrics.fabric);
  result.set_fabric_reason(metrics.fabric_reason);
  result.set_target(target);
  std::vector<absl::Duration> times;
  for (int i = 0; i < options.calls; ++i) {
    ASSIGN_OR_RETURN(const absl::Duration time, TimeCall(stub, options, {}));
    times.push_back(time);
  }
  std::sort(times.begin(), times.end());
  result.set_calls(options.calls);
  result.set_least_us(absl::ToDoubleMicroseconds(times.front()));
  result.set_median_us(absl::ToDoubleMicroseconds(times[times.size() / 2]));
  result.set_most_us(absl::ToDoubleMicroseconds(times.back()));
  if (!with_large) return result;
  // The first call makes the client and the server register memory. The second
  // one is measured.
  const std::vector<uint8_t> attachment(kLargeBytes, 0x5a);
  RETURN_IF_ERROR(TimeCall(stub, options, attachment).status());
  ASSIGN_OR_RETURN(const absl::Duration large,
                   TimeCall(stub, options, attachment));
  result.set_large_us(absl::ToDoubleMicroseconds(large));
  return result;
}

}  // namespace

absl::StatusOr<Measurement> MeasureDevice(const std::string& device,
                                          const std::string& address,
                                          const SelfTestOptions& options) {
  HealthService health;
  int port = 0;
  ServerBuilder builder;
  builder.AddListeningPort(address, &port)
      .RegisterService(&health)
      .SetDevice(device);
  ASSIGN_OR_RETURN(const std::unique_ptr<Server> server,
                   builder.BuildAndStart());
  const std::string host = address.substr(0, address.rfind(':'));
  return Measure(device, absl::StrCat(host, ":", port), options,
                 /*with_large=*/true);
}

absl::StatusOr<Measurement> MeasurePeer(const std::string& device,
                                        const std::string& target,
                                        const SelfTestOptions& options) {
  return Measure(device, target, options, /*with_large=*/false);
}

}  // namespace verbena::doctor
