// The policies that the library has itself.

#ifndef VERBENA_RPC_INTERNAL_SERVICE_BALANCERS_H_
#define VERBENA_RPC_INTERNAL_SERVICE_BALANCERS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/balancer.h"
#include "rpc/internal/service/service_config.h"

namespace verbena::internal {

// The policy of which a channel without another one is: one server, the first
// of the list that answers. It has no Balancer.
inline constexpr absl::string_view kPickFirst = "pick_first";

// Facts that balancers are made of, beside their configs.
struct PolicySource {
  // Those that the library does not have itself.
  const std::vector<std::shared_ptr<BalancerFactory>>& others;
  uint64_t seed;  // Determines all random values.
  // The client's place.
  Locality here = {};
  bool below_nearest = false;
};

// A policy that a channel can follow.
struct ChosenPolicy {
  std::string name;
  std::string config = {};
  // Null for pick_first.
  std::unique_ptr<Balancer> balancer = nullptr;
};

// Makes the first of `policies` that is known: round_robin,
// weighted_round_robin, least_request, ring_hash, pick_first, those above
// others, outlier_detection and nearest, and those of the user.
// INVALID_ARGUMENT if none is known, or if the config of that one is wrong.
absl::StatusOr<ChosenPolicy> ChoosePolicy(
    const std::vector<ServiceConfig::Policy>& policies,
    const PolicySource& source);

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVICE_BALANCERS_H_
