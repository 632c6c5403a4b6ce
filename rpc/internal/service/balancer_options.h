// The options of the policies in a service config.

#ifndef VERBENA_RPC_INTERNAL_SERVICE_BALANCER_OPTIONS_H_
#define VERBENA_RPC_INTERNAL_SERVICE_BALANCER_OPTIONS_H_

#include <optional>

#include "absl/status/statusor.h"
#include "rpc/internal/service/json_value.h"
#include "rpc/internal/service/nearest.h"
#include "rpc/internal/service/outlier_detection.h"
#include "rpc/internal/service/ring_hash.h"
#include "rpc/internal/service/slow_start.h"
#include "rpc/internal/service/weighted_round_robin.h"

namespace verbena::internal {

// Each reads the JSON object of its policy. INVALID_ARGUMENT names the path of
// what is wrong, and its value.
absl::StatusOr<int> ReadChoiceCount(const JsonValue& config);
absl::StatusOr<RingHash::Options> ReadRingHash(const JsonValue& config);
absl::StatusOr<WeightedRoundRobin::Options> ReadWeightedRoundRobin(
    const JsonValue& config);
// All but `here`.
absl::StatusOr<Nearest::Options> ReadNearest(const JsonValue& config);
absl::StatusOr<OutlierDetection::Options> ReadOutlierDetection(
    const JsonValue& config);
// Nothing if `config` has no slowStartConfig.
absl::StatusOr<std::optional<SlowStart::Options>> ReadSlowStart(
    const JsonValue& config);

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVICE_BALANCER_OPTIONS_H_
