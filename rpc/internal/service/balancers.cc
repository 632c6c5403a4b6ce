#include "rpc/internal/service/balancers.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/struct.pb.h"
#include "rpc/internal/service/json_value.h"
#include "rpc/internal/service/least_request.h"
#include "rpc/internal/service/ring_hash.h"
#include "rpc/internal/service/round_robin.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {
namespace {

using Made = absl::StatusOr<std::unique_ptr<Balancer>>;

// The field `name` of a policy's config, or `fallback`.
absl::StatusOr<uint64_t> IntegerField(const JsonValue& config,
                                      absl::string_view name, uint64_t least,
                                      uint64_t most, uint64_t fallback) {
  ASSIGN_OR_RETURN(const auto field, config.Field(name));
  if (!field.has_value()) return fallback;
  return field->Integer(least, most);
}

Made MakeLeastRequest(const JsonValue& config, uint64_t seed) {
  ASSIGN_OR_RETURN(const uint64_t choices,
                   IntegerField(config, "choiceCount", 2, 10, 2));
  return std::make_unique<LeastRequest>(static_cast<int>(choices), seed);
}

// gRPC's proposal A42 has the smallest size of the whole ring, by default 1,024
// for whatever number of servers. Here that is taken for the size for four.
Made MakeRingHash(const JsonValue& config) {
  constexpr uint64_t kLargest = uint64_t{8} << 20;
  RingHash::Options options;
  ASSIGN_OR_RETURN(const uint64_t least,
                   IntegerField(config, "minRingSize", 1, kLargest, 1024));
  ASSIGN_OR_RETURN(
      options.max_points,
      IntegerField(config, "maxRingSize", 1, kLargest, options.max_points));
  ASSIGN_OR_RETURN(const auto header, config.Field("requestHashHeader"));
  if (header.has_value()) {
    ASSIGN_OR_RETURN(options.metadata_key, header->String());
  }
  if (least > options.max_points) {
    return absl::InvalidArgumentError(absl::StrCat(
        config.path(), ".minRingSize is ", least,
        ", but must not be more than maxRingSize, ", options.max_points));
  }
  options.unit_points = std::max<uint64_t>(1, least / 4);
  return std::make_unique<RingHash>(options);
}

Made MakeOwn(const ServiceConfig::Policy& policy, uint64_t seed) {
  ASSIGN_OR_RETURN(const google::protobuf::Value document,
                   JsonValue::ParseObject(policy.config));
  const JsonValue config(document, policy.name);
  if (policy.name == "round_robin") return std::make_unique<RoundRobin>(seed);
  if (policy.name == "weighted_round_robin") {
    return std::make_unique<WeightedRoundRobin>(seed);
  }
  if (policy.name == "least_request" ||
      policy.name == "least_request_experimental") {
    return MakeLeastRequest(config, seed);
  }
  if (policy.name == "ring_hash" || policy.name == "ring_hash_experimental") {
    return MakeRingHash(config);
  }
  return std::unique_ptr<Balancer>();
}

}  // namespace

absl::StatusOr<ChosenPolicy> ChoosePolicy(
    const std::vector<ServiceConfig::Policy>& policies,
    const std::vector<std::shared_ptr<BalancerFactory>>& others,
    uint64_t seed) {
  if (policies.empty()) return ChosenPolicy{.name = std::string(kPickFirst)};
  for (const ServiceConfig::Policy& policy : policies) {
    ChosenPolicy chosen{.name = policy.name, .config = policy.config};
    if (policy.name == kPickFirst) return chosen;
    for (const auto& factory : others) {
      if (factory->policy() != policy.name) continue;
      ASSIGN_OR_RETURN(chosen.balancer, factory->Create(policy.config, seed));
      return chosen;
    }
    ASSIGN_OR_RETURN(chosen.balancer, MakeOwn(policy, seed));
    if (chosen.balancer != nullptr) return chosen;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "loadBalancingConfig has no policy that is known here: ",
      absl::StrJoin(policies, ", ", [](std::string* out, const auto& policy) {
        absl::StrAppend(out, policy.name);
      })));
}

}  // namespace verbena::internal
