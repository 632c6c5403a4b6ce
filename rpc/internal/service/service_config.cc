#include "rpc/internal/service/service_config.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/struct.pb.h"
#include "rpc/internal/service/json_value.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {
namespace {

// The proposals' bound for the attempts of a call: more are taken for five.
constexpr uint64_t kMaxAttempts = 5;
// Integers of service configs are protobuf's uint32.
constexpr uint64_t kLargestInteger = UINT32_MAX;
constexpr uint64_t kMostTokens = 1000;

constexpr int kLastCode = static_cast<int>(absl::StatusCode::kUnauthenticated);

absl::StatusOr<absl::StatusCode> ReadCode(const JsonValue& value) {
  if (const auto number = value.Integer(0, kLastCode); number.ok()) {
    return static_cast<absl::StatusCode>(*number);
  }
  const absl::StatusOr<std::string> name = value.String();
  for (int code = 0; name.ok() && code <= kLastCode; ++code) {
    const auto known = static_cast<absl::StatusCode>(code);
    if (absl::AsciiStrToUpper(*name) == absl::StatusCodeToString(known)) {
      return known;
    }
  }
  return value.MustBe("a status code, such as \"UNAVAILABLE\"");
}

absl::StatusOr<StatusCodes> ReadCodes(const JsonValue& value) {
  ASSIGN_OR_RETURN(const std::vector<JsonValue> elements, value.Elements());
  StatusCodes codes;
  for (const JsonValue& element : elements) {
    ASSIGN_OR_RETURN(const absl::StatusCode code, ReadCode(element));
    codes.Add(code);
  }
  return codes;
}

// The field `name` of `object`, which must be there.
absl::StatusOr<JsonValue> Required(const JsonValue& object,
                                   absl::string_view name) {
  ASSIGN_OR_RETURN(const std::optional<JsonValue> field, object.Field(name));
  if (field.has_value()) return *field;
  return object.MustBe(absl::StrCat("an object with \"", name, "\""));
}

absl::StatusOr<absl::Duration> PositiveDuration(const JsonValue& object,
                                                absl::string_view name) {
  ASSIGN_OR_RETURN(const JsonValue field, Required(object, name));
  ASSIGN_OR_RETURN(const absl::Duration duration, field.Duration());
  if (duration <= absl::ZeroDuration()) return field.MustBe("more than zero");
  return duration;
}

absl::StatusOr<int> ReadAttempts(const JsonValue& object) {
  ASSIGN_OR_RETURN(const JsonValue field, Required(object, "maxAttempts"));
  ASSIGN_OR_RETURN(const uint64_t attempts, field.Integer(2, kLargestInteger));
  return static_cast<int>(std::min(attempts, kMaxAttempts));
}

absl::StatusOr<RetryPolicy> ReadRetry(const JsonValue& object) {
  RetryPolicy policy;
  ASSIGN_OR_RETURN(policy.max_attempts, ReadAttempts(object));
  ASSIGN_OR_RETURN(policy.initial_backoff,
                   PositiveDuration(object, "initialBackoff"));
  ASSIGN_OR_RETURN(policy.max_backoff, PositiveDuration(object, "maxBackoff"));
  ASSIGN_OR_RETURN(const JsonValue multiplier,
                   Required(object, "backoffMultiplier"));
  ASSIGN_OR_RETURN(policy.backoff_multiplier, multiplier.Number());
  if (policy.backoff_multiplier <= 0) {
    return multiplier.MustBe("more than zero");
  }
  ASSIGN_OR_RETURN(const JsonValue codes,
                   Required(object, "retryableStatusCodes"));
  ASSIGN_OR_RETURN(policy.codes, ReadCodes(codes));
  ASSIGN_OR_RETURN(const auto timeout, object.Field("perAttemptRecvTimeout"));
  if (timeout.has_value()) {
    ASSIGN_OR_RETURN(policy.attempt_timeout,
                     PositiveDuration(object, "perAttemptRecvTimeout"));
  } else if (policy.codes.empty()) {
    return codes.MustBe("a list that is not empty");
  }
  return policy;
}

absl::StatusOr<HedgingPolicy> ReadHedging(const JsonValue& object) {
  HedgingPolicy policy;
  ASSIGN_OR_RETURN(policy.max_attempts, ReadAttempts(object));
  ASSIGN_OR_RETURN(const auto delay, object.Field("hedgingDelay"));
  if (delay.has_value()) {
    ASSIGN_OR_RETURN(policy.delay, delay->Duration());
  }
  ASSIGN_OR_RETURN(const auto codes, object.Field("nonFatalStatusCodes"));
  if (codes.has_value()) {
    ASSIGN_OR_RETURN(policy.non_fatal, ReadCodes(*codes));
  }
  return policy;
}

}  // namespace

// Fills a ServiceConfig.
class ServiceConfigReader {
 public:
  absl::Status Read(const JsonValue& document);

  std::shared_ptr<ServiceConfig> config{new ServiceConfig()};

 private:
  absl::Status ReadMethods(const JsonValue& list);
  absl::Status ReadNames(const JsonValue& list);
  absl::Status ReadThrottling(const JsonValue& object);
};

namespace {

absl::StatusOr<MethodConfig> ReadMethod(const JsonValue& object) {
  MethodConfig method;
  ASSIGN_OR_RETURN(const auto wait, object.Field("waitForReady"));
  if (wait.has_value()) {
    ASSIGN_OR_RETURN(method.wait_for_ready, wait->Bool());
  }
  ASSIGN_OR_RETURN(const auto timeout, object.Field("timeout"));
  if (timeout.has_value()) {
    ASSIGN_OR_RETURN(method.timeout, timeout->Duration());
  }
  ASSIGN_OR_RETURN(const auto request, object.Field("maxRequestMessageBytes"));
  if (request.has_value()) {
    ASSIGN_OR_RETURN(method.max_request_bytes,
                     request->Integer(0, kLargestInteger));
  }
  ASSIGN_OR_RETURN(const auto response,
                   object.Field("maxResponseMessageBytes"));
  if (response.has_value()) {
    ASSIGN_OR_RETURN(method.max_response_bytes,
                     response->Integer(0, kLargestInteger));
  }
  ASSIGN_OR_RETURN(const auto retry, object.Field("retryPolicy"));
  if (retry.has_value()) {
    ASSIGN_OR_RETURN(method.retry, ReadRetry(*retry));
  }
  ASSIGN_OR_RETURN(const auto hedging, object.Field("hedgingPolicy"));
  if (hedging.has_value()) {
    if (retry.has_value()) {
      return hedging->MustBe("left out beside a retryPolicy");
    }
    ASSIGN_OR_RETURN(method.hedging, ReadHedging(*hedging));
  }
  return method;
}

}  // namespace

absl::Status ServiceConfigReader::ReadMethods(const JsonValue& list) {
  ASSIGN_OR_RETURN(const std::vector<JsonValue> elements, list.Elements());
  for (const JsonValue& element : elements) {
    ASSIGN_OR_RETURN(MethodConfig method, ReadMethod(element));
    ASSIGN_OR_RETURN(const auto names, element.Field("name"));
    config->methods_.push_back(std::move(method));
    if (names.has_value()) RETURN_IF_ERROR(ReadNames(*names));
  }
  return absl::OkStatus();
}

// Names of the last method's config.
absl::Status ServiceConfigReader::ReadNames(const JsonValue& list) {
  ASSIGN_OR_RETURN(const std::vector<JsonValue> elements, list.Elements());
  for (const JsonValue& element : elements) {
    ASSIGN_OR_RETURN(const std::string service, element.TextField("service"));
    ASSIGN_OR_RETURN(const std::string method, element.TextField("method"));
    if (service.empty() && !method.empty()) {
      return element.MustBe("an object with \"service\" beside \"method\"");
    }
    const std::string key =
        service.empty() ? "" : absl::StrCat(service, "/", method);
    if (!config->by_name_.emplace(key, config->methods_.size() - 1).second) {
      return element.MustBe("a name that does not occur twice");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ServiceConfig::Policy>> ReadPolicies(
    const JsonValue& list) {
  std::vector<ServiceConfig::Policy> policies;
  ASSIGN_OR_RETURN(const std::vector<JsonValue> elements, list.Elements());
  for (const JsonValue& element : elements) {
    ASSIGN_OR_RETURN(const std::vector<std::string> names, element.Names());
    if (names.size() != 1) {
      return element.MustBe("an object with one field, the policy's name");
    }
    ASSIGN_OR_RETURN(const auto field, element.Field(names[0]));
    if (!field.has_value()) return element.MustBe("a policy with an object");
    RETURN_IF_ERROR(field->Names().status());
    policies.push_back({names[0], field->Json()});
  }
  return policies;
}

absl::Status ServiceConfigReader::ReadThrottling(const JsonValue& object) {
  ASSIGN_OR_RETURN(const JsonValue tokens, Required(object, "maxTokens"));
  ASSIGN_OR_RETURN(const uint64_t max_tokens, tokens.Integer(1, kMostTokens));
  ASSIGN_OR_RETURN(const JsonValue ratio, Required(object, "tokenRatio"));
  ASSIGN_OR_RETURN(const double token_ratio, ratio.Number());
  // Decimals beyond the third are ignored, but not those of a double that is
  // next to a thousandth.
  constexpr double kHalfABit = 1e-6;
  const double thousandths = std::floor(token_ratio * kThousandths + kHalfABit);
  if (thousandths < 1) return ratio.MustBe("0.001 at least");
  config->throttling_ = RetryThrottling{
      .max_tokens = static_cast<int64_t>(max_tokens) * kThousandths,
      .token_ratio = static_cast<int64_t>(
          std::min<double>(thousandths, kMostTokens * kThousandths))};
  return absl::OkStatus();
}

// "loadBalancingPolicy" is the older field: a name, in whatever case.
absl::Status ServiceConfigReader::Read(const JsonValue& document) {
  ASSIGN_OR_RETURN(const auto methods, document.Field("methodConfig"));
  if (methods.has_value()) RETURN_IF_ERROR(ReadMethods(*methods));
  ASSIGN_OR_RETURN(const auto policies, document.Field("loadBalancingConfig"));
  ASSIGN_OR_RETURN(const std::string policy,
                   document.TextField("loadBalancingPolicy"));
  if (policies.has_value()) {
    ASSIGN_OR_RETURN(config->policies_, ReadPolicies(*policies));
  } else if (!policy.empty()) {
    config->policies_.push_back({absl::AsciiStrToLower(policy), "{}"});
  }
  ASSIGN_OR_RETURN(const auto throttling, document.Field("retryThrottling"));
  if (throttling.has_value()) RETURN_IF_ERROR(ReadThrottling(*throttling));
  ASSIGN_OR_RETURN(const auto health, document.Field("healthCheckConfig"));
  if (health.has_value()) {
    ASSIGN_OR_RETURN(const auto service, health->Field("serviceName"));
    if (service.has_value()) {
      ASSIGN_OR_RETURN(config->health_service_, service->String());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const ServiceConfig>> ServiceConfig::Parse(
    absl::string_view json) {
  ASSIGN_OR_RETURN(const google::protobuf::Value document,
                   JsonValue::ParseObject(json));
  ServiceConfigReader reader;
  RETURN_IF_ERROR(reader.Read(JsonValue(document, "")));
  return std::shared_ptr<const ServiceConfig>(std::move(reader.config));
}

const MethodConfig* ServiceConfig::Find(absl::string_view method) const {
  auto found = by_name_.find(method);
  if (found == by_name_.end()) {
    found = by_name_.find(method.substr(0, method.find('/') + 1));
  }
  if (found == by_name_.end()) found = by_name_.find("");
  return found == by_name_.end() ? nullptr : &methods_[found->second];
}

}  // namespace verbena::internal
