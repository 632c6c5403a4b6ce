// The service config: what the owner of a service says of how to call it.

#ifndef VERBENA_RPC_INTERNAL_SERVICE_SERVICE_CONFIG_H_
#define VERBENA_RPC_INTERNAL_SERVICE_SERVICE_CONFIG_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace verbena::internal {

class JsonValue;

// A set of status codes.
class StatusCodes {
 public:
  void Add(absl::StatusCode code) { bits_ |= Bit(code); }
  bool Contains(absl::StatusCode code) const { return bits_ & Bit(code); }
  bool empty() const { return bits_ == 0; }

 private:
  static uint32_t Bit(absl::StatusCode code) {
    return uint32_t{1} << (static_cast<uint32_t>(code) & 31);
  }
  uint32_t bits_ = 0;
};

// When a call is tried again that has failed.
struct RetryPolicy {
  int max_attempts = 0;  // From 2 to 5, the first one included.
  absl::Duration initial_backoff;
  absl::Duration max_backoff;
  double backoff_multiplier = 0;
  // Empty only if there is an attempt_timeout.
  StatusCodes codes;
  // For so long an attempt waits for anything from its server.
  absl::Duration attempt_timeout = absl::InfiniteDuration();
};

// When a call is sent to a further server while the first has not answered.
struct HedgingPolicy {
  int max_attempts = 0;  // From 2 to 5.
  absl::Duration delay;
  StatusCodes non_fatal;
};

// Rules for the calls of a method.
struct MethodConfig {
  std::optional<bool> wait_for_ready;
  std::optional<absl::Duration> timeout;
  std::optional<uint64_t> max_request_bytes;
  std::optional<uint64_t> max_response_bytes;
  std::optional<RetryPolicy> retry;
  std::optional<HedgingPolicy> hedging;
};

// How many retries a service bears, beside its answers. In thousandths of a
// token.
inline constexpr int64_t kThousandths = 1000;
struct RetryThrottling {
  int64_t max_tokens = 0;
  int64_t token_ratio = 0;
};

// gRPC's service config (its proposals A2, A6, A17, A24). Immutable.
class ServiceConfig {
 public:
  struct Policy {
    std::string name;
    std::string config;  // A JSON object.
  };

  // Reads the JSON. As the proposals have it, fields that nobody knows are
  // skipped. INVALID_ARGUMENT names the path of what is wrong, and its value.
  static absl::StatusOr<std::shared_ptr<const ServiceConfig>> Parse(
      absl::string_view json);

  // The rules for "package.Service/Method"; null if there are none.
  const MethodConfig* Find(absl::string_view method) const;

  // The policies of balancing, the most wanted first. The first that the
  // channel knows is taken. Empty: pick_first.
  const std::vector<Policy>& policies() const { return policies_; }
  const std::optional<RetryThrottling>& throttling() const {
    return throttling_;
  }
  // The service that each server is asked about by grpc.health.v1 (A17).
  // Nothing: servers are taken for healthy.
  const std::optional<std::string>& health_service() const {
    return health_service_;
  }

 private:
  friend class ServiceConfigReader;

  ServiceConfig() = default;

  std::vector<MethodConfig> methods_;
  // Positions in methods_. The keys are "Service/Method", "Service/" for all of
  // a service, and "" for the rest.
  std::map<std::string, size_t, std::less<>> by_name_;
  std::vector<Policy> policies_;
  std::optional<RetryThrottling> throttling_;
  std::optional<std::string> health_service_;
};

// Reads a list of policies: the elements are objects with one field, whose name
// is the policy's. INVALID_ARGUMENT names the path of what is wrong.
absl::StatusOr<std::vector<ServiceConfig::Policy>> ReadPolicies(
    const JsonValue& list);

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVICE_SERVICE_CONFIG_H_
