#include "rpc/internal/service/balancer_options.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {
namespace {

constexpr uint64_t kLargestInteger = uint64_t{1} << 31;

// Each sets `*value` to the field `name`, or leaves it as it is if there is
// none.
template <typename Integer>
absl::Status ReadInteger(const JsonValue& config, absl::string_view name,
                         uint64_t least, uint64_t most, Integer* value) {
  ASSIGN_OR_RETURN(const auto field, config.Field(name));
  if (!field.has_value()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const uint64_t read, field->Integer(least, most));
  *value = static_cast<Integer>(read);
  return absl::OkStatus();
}

absl::Status ReadDuration(const JsonValue& config, absl::string_view name,
                          absl::Duration least, absl::Duration* value) {
  ASSIGN_OR_RETURN(const auto field, config.Field(name));
  if (!field.has_value()) return absl::OkStatus();
  ASSIGN_OR_RETURN(*value, field->Duration());
  if (*value < least) {
    return field->MustBe(
        absl::StrCat("at least ", absl::FormatDuration(least)));
  }
  return absl::OkStatus();
}

// Sets `*value` to what `read` makes of the field `name`, an object.
template <typename Value>
absl::Status ReadObject(const JsonValue& config, absl::string_view name,
                        absl::Status (*read)(const JsonValue& config,
                                             Value* value),
                        std::optional<Value>* value) {
  ASSIGN_OR_RETURN(const auto field, config.Field(name));
  if (!field.has_value()) return absl::OkStatus();
  RETURN_IF_ERROR(field->Names().status());
  return read(*field, &value->emplace());
}

using Outliers = OutlierDetection;

absl::Status ReadRule(const JsonValue& config, Outliers::Rule* rule) {
  RETURN_IF_ERROR(ReadInteger(config, "enforcementPercentage", 0, 100,
                              &rule->enforcement_percentage));
  RETURN_IF_ERROR(ReadInteger(config, "minimumHosts", 0, kLargestInteger,
                              &rule->minimum_hosts));
  return ReadInteger(config, "requestVolume", 0, kLargestInteger,
                     &rule->request_volume);
}

absl::Status ReadSuccessRate(const JsonValue& config,
                             Outliers::SuccessRate* by) {
  RETURN_IF_ERROR(ReadRule(config, &by->rule));
  return ReadInteger(config, "stdevFactor", 0, kLargestInteger,
                     &by->stdev_factor);
}

absl::Status ReadFailurePercentage(const JsonValue& config,
                                   Outliers::FailurePercentage* by) {
  RETURN_IF_ERROR(ReadRule(config, &by->rule));
  return ReadInteger(config, "threshold", 0, 100, &by->threshold);
}

absl::Status ReadConsecutiveFailures(const JsonValue& config,
                                     Outliers::ConsecutiveFailures* by) {
  RETURN_IF_ERROR(ReadInteger(config, "enforcementPercentage", 0, 100,
                              &by->enforcement_percentage));
  return ReadInteger(config, "threshold", 1, kLargestInteger, &by->threshold);
}

absl::Status ReadLatency(const JsonValue& config, Outliers::Latency* by) {
  RETURN_IF_ERROR(ReadRule(config, &by->rule));
  return ReadInteger(config, "factorPercent", 100, kLargestInteger,
                     &by->factor_percent);
}

}  // namespace

absl::StatusOr<int> ReadChoiceCount(const JsonValue& config) {
  int choices = 2;
  RETURN_IF_ERROR(ReadInteger(config, "choiceCount", 2, 10, &choices));
  return choices;
}

// gRPC's proposal A42 has the smallest size of the whole ring, by default 1,024
// for whatever number of servers. Here that is taken for the size for four.
absl::StatusOr<RingHash::Options> ReadRingHash(const JsonValue& config) {
  constexpr uint64_t kLargest = uint64_t{8} << 20;
  RingHash::Options options;
  uint64_t least = 1024;
  RETURN_IF_ERROR(ReadInteger(config, "minRingSize", 1, kLargest, &least));
  RETURN_IF_ERROR(
      ReadInteger(config, "maxRingSize", 1, kLargest, &options.max_points));
  ASSIGN_OR_RETURN(options.metadata_key, config.TextField("requestHashHeader"));
  if (least > options.max_points) {
    return absl::InvalidArgumentError(absl::StrCat(
        config.path(), ".minRingSize is ", least,
        ", but must not be more than maxRingSize, ", options.max_points));
  }
  options.unit_points = std::max<uint64_t>(1, least / 4);
  return options;
}

// A58 raises a short weightUpdatePeriod silently.
absl::StatusOr<WeightedRoundRobin::Options> ReadWeightedRoundRobin(
    const JsonValue& config) {
  WeightedRoundRobin::Options options;
  RETURN_IF_ERROR(ReadDuration(config, "blackoutPeriod", absl::ZeroDuration(),
                               &options.blackout_period));
  RETURN_IF_ERROR(ReadDuration(config, "weightExpirationPeriod",
                               absl::ZeroDuration(),
                               &options.expiration_period));
  RETURN_IF_ERROR(ReadDuration(config, "weightUpdatePeriod",
                               absl::ZeroDuration(), &options.update_period));
  options.update_period =
      std::max(options.update_period, absl::Milliseconds(100));
  ASSIGN_OR_RETURN(const auto penalty, config.Field("errorUtilizationPenalty"));
  if (penalty.has_value()) {
    ASSIGN_OR_RETURN(options.error_penalty, penalty->Number());
    if (options.error_penalty < 0) return penalty->MustBe("0 or more");
  }
  ASSIGN_OR_RETURN(const auto out_of_band, config.Field("enableOobLoadReport"));
  if (out_of_band.has_value()) RETURN_IF_ERROR(out_of_band->Bool().status());
  return options;
}

absl::StatusOr<Nearest::Options> ReadNearest(const JsonValue& config) {
  Nearest::Options options;
  RETURN_IF_ERROR(ReadInteger(config, "maxOpenCalls", 1, kLargestInteger,
                              &options.max_open_calls));
  return options;
}

absl::StatusOr<OutlierDetection::Options> ReadOutlierDetection(
    const JsonValue& config) {
  Outliers::Options options;
  RETURN_IF_ERROR(ReadDuration(config, "interval", absl::Milliseconds(1),
                               &options.interval));
  RETURN_IF_ERROR(ReadDuration(config, "baseEjectionTime", absl::ZeroDuration(),
                               &options.base_ejection_time));
  RETURN_IF_ERROR(ReadDuration(config, "maxEjectionTime", absl::ZeroDuration(),
                               &options.max_ejection_time));
  RETURN_IF_ERROR(ReadInteger(config, "maxEjectionPercent", 0, 100,
                              &options.max_ejection_percent));
  RETURN_IF_ERROR(ReadObject(config, "successRateEjection", &ReadSuccessRate,
                             &options.success_rate));
  RETURN_IF_ERROR(ReadObject(config, "failurePercentageEjection",
                             &ReadFailurePercentage,
                             &options.failure_percentage));
  RETURN_IF_ERROR(ReadObject(config, "consecutiveFailuresEjection",
                             &ReadConsecutiveFailures,
                             &options.consecutive_failures));
  RETURN_IF_ERROR(
      ReadObject(config, "latencyEjection", &ReadLatency, &options.latency));
  return options;
}

absl::StatusOr<std::optional<SlowStart::Options>> ReadSlowStart(
    const JsonValue& config) {
  ASSIGN_OR_RETURN(const auto field, config.Field("slowStartConfig"));
  if (!field.has_value()) return std::optional<SlowStart::Options>();
  SlowStart::Options options{.window = absl::Seconds(10)};
  RETURN_IF_ERROR(ReadDuration(*field, "slowStartWindow", absl::Milliseconds(1),
                               &options.window));
  RETURN_IF_ERROR(
      ReadInteger(*field, "minWeightPercent", 1, 100, &options.min_percent));
  return std::optional<SlowStart::Options>(options);
}

}  // namespace verbena::internal
