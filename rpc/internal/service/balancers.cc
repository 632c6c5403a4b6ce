#include "rpc/internal/service/balancers.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "google/protobuf/struct.pb.h"
#include "rpc/internal/service/balancer_options.h"
#include "rpc/internal/service/json_value.h"
#include "rpc/internal/service/least_request.h"
#include "rpc/internal/service/ring_hash.h"
#include "rpc/internal/service/round_robin.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {
namespace {

using Made = absl::StatusOr<std::unique_ptr<Balancer>>;

// The policy under "childPolicy" of another one. What that has above it has no
// meaning for pick_first, which has no Balancer.
absl::StatusOr<ChosenPolicy> ChooseChild(const JsonValue& config,
                                         const PolicySource& source) {
  ASSIGN_OR_RETURN(const auto field, config.Field("childPolicy"));
  if (!field.has_value()) {
    return config.MustBe("an object with \"childPolicy\"");
  }
  ASSIGN_OR_RETURN(const auto policies, ReadPolicies(*field));
  ASSIGN_OR_RETURN(ChosenPolicy child, ChoosePolicy(policies, source));
  if (child.balancer == nullptr) {
    return field->MustBe("a policy that takes several servers");
  }
  return child;
}

Made MakeOutlierDetection(const JsonValue& config, const PolicySource& source) {
  ASSIGN_OR_RETURN(const OutlierDetection::Options options,
                   ReadOutlierDetection(config));
  ASSIGN_OR_RETURN(ChosenPolicy child, ChooseChild(config, source));
  return std::make_unique<OutlierDetection>(options, std::move(child.balancer),
                                            source.seed);
}

// Below another one it would mean nothing, and make five times as many.
Made MakeNearest(const JsonValue& config, const PolicySource& source) {
  ASSIGN_OR_RETURN(Nearest::Options options, ReadNearest(config));
  if (source.below_nearest) return config.MustBe("only once above a policy");
  options.here = source.here;
  PolicySource below = source;
  below.below_nearest = true;
  Nearest::Children children;
  for (std::unique_ptr<Balancer>& child : children) {
    ASSIGN_OR_RETURN(ChosenPolicy chosen, ChooseChild(config, below));
    child = std::move(chosen.balancer);
  }
  return std::make_unique<Nearest>(std::move(options), std::move(children));
}

Made WithSlowStart(const JsonValue& config, const PolicySource& source,
                   std::unique_ptr<Balancer> balancer) {
  ASSIGN_OR_RETURN(const auto options, ReadSlowStart(config));
  if (!options.has_value()) return balancer;
  return std::make_unique<SlowStart>(*options, std::move(balancer),
                                     source.seed);
}

// Returns null for a policy that nobody knows. Those that are proposals have
// names with an ending in gRPC.
Made MakeOwn(const ServiceConfig::Policy& policy, const PolicySource& source) {
  ASSIGN_OR_RETURN(const google::protobuf::Value document,
                   JsonValue::ParseObject(policy.config));
  const JsonValue config(document, policy.name);
  const absl::string_view name =
      absl::StripSuffix(policy.name, "_experimental");
  if (name == "round_robin") {
    return WithSlowStart(config, source,
                         std::make_unique<RoundRobin>(source.seed));
  }
  if (name == "weighted_round_robin") {
    ASSIGN_OR_RETURN(const auto options, ReadWeightedRoundRobin(config));
    return WithSlowStart(
        config, source,
        std::make_unique<WeightedRoundRobin>(options, source.seed));
  }
  if (name == "least_request") {
    ASSIGN_OR_RETURN(const int choices, ReadChoiceCount(config));
    return WithSlowStart(config, source,
                         std::make_unique<LeastRequest>(choices, source.seed));
  }
  if (name == "ring_hash") {
    ASSIGN_OR_RETURN(const RingHash::Options options, ReadRingHash(config));
    return std::make_unique<RingHash>(options);
  }
  if (name == "outlier_detection") return MakeOutlierDetection(config, source);
  if (name == "nearest") return MakeNearest(config, source);
  return std::unique_ptr<Balancer>();
}

}  // namespace

absl::StatusOr<ChosenPolicy> ChoosePolicy(
    const std::vector<ServiceConfig::Policy>& policies,
    const PolicySource& source) {
  if (policies.empty()) return ChosenPolicy{.name = std::string(kPickFirst)};
  for (const ServiceConfig::Policy& policy : policies) {
    ChosenPolicy chosen{.name = policy.name, .config = policy.config};
    if (policy.name == kPickFirst) return chosen;
    for (const auto& factory : source.others) {
      if (factory->policy() != policy.name) continue;
      ASSIGN_OR_RETURN(chosen.balancer,
                       factory->Create(policy.config, source.seed));
      return chosen;
    }
    ASSIGN_OR_RETURN(chosen.balancer, MakeOwn(policy, source));
    if (chosen.balancer != nullptr) return chosen;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "loadBalancingConfig has no policy that is known here: ",
      absl::StrJoin(policies, ", ", [](std::string* out, const auto& policy) {
        absl::StrAppend(out, policy.name);
      })));
}

}  // namespace verbena::internal
