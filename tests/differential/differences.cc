#include "tests/differential/differences.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace verbena::differential {
namespace {

constexpr size_t kKiB = 1024;

// A config for all methods.
std::string Config(const std::string& fields, const std::string& beside = "") {
  return absl::StrCat(R"({"methodConfig": [{"name": [{}], )", fields, "}]",
                      beside, "}");
}

std::string RetryOf(const std::string& code) {
  return absl::StrCat(
      R"("retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.001s",
                         "maxBackoff": "0.001s", "backoffMultiplier": 1,
                         "retryableStatusCodes": [")",
      code, R"("]})");
}

// A call whose attempts end with these codes.
Call Ending(const std::vector<absl::StatusCode>& codes) {
  Call call;
  call.acts.clear();
  for (const absl::StatusCode code : codes) {
    call.acts.emplace_back().code = code;
  }
  return call;
}

std::string Result(const std::string& attempts, const std::string& code,
                   const std::string& last) {
  return absl::StrCat("attempts ", attempts, "; ", code, ", ",
                      code == "OK" ? "8" : "0",
                      " bytes, initial metadata -, trailing ", last);
}

ScheduleDifference ShortTimeout() {
  return {
      .reason =
          "gRPC counts the timeout of a config from up to two seconds "
          "before the call, as its two clocks began at different times",
      .schedule = {.config = Config(R"("timeout": "0.9s")"), .calls = {Call()}},
      .grpc = {Result("", "DEADLINE_EXCEEDED", "-")},
      .verbena = {Result("-", "OK", "0")}};
}

ScheduleDifference NoTimeout() {
  return {
      .reason = "gRPC C++ takes a timeout of zero for none",
      .schedule = {.config = Config(R"("timeout": "0s")"), .calls = {Call()}},
      .grpc = {Result("-", "OK", "0")},
      .verbena = {Result("", "DEADLINE_EXCEEDED", "-")}};
}

ScheduleDifference WholeTokenRatio() {
  using enum absl::StatusCode;
  return {.reason =
              "gRPC C++ takes a tokenRatio without a decimal point for "
              "thousandths",
          .schedule = {.config = Config(RetryOf("UNAVAILABLE"),
                                        R"(, "retryThrottling": {"maxTokens": 3,
                                                "tokenRatio": 1})"),
                       .calls = {Ending({kUnavailable, kOk}),
                                 Ending({kUnavailable, kOk})}},
          .grpc = {Result("-,1", "OK", "1"), Result("-", "UNAVAILABLE", "0")},
          .verbena = {Result("-,1", "OK", "1"), Result("-,1", "OK", "1")}};
}

ScheduleDifference LargeRequest() {
  using enum absl::StatusCode;
  Call call = Ending({kUnavailable, kOk});
  call.request_bytes = 300 * kKiB;
  return {
      .reason =
          "gRPC keeps 256 KiB of a request for further attempts; "
          "Verbena has the request until the call ends",
      .schedule = {.config = Config(RetryOf("UNAVAILABLE")), .calls = {call}},
      .grpc = {Result("-", "UNAVAILABLE", "0")},
      .verbena = {Result("-,1", "OK", "1")}};
}

ScheduleDifference OwnLimit() {
  using enum absl::StatusCode;
  Call large;
  large.request_bytes = kKiB;
  return {.reason =
              "gRPC C++ counts a message that is too long as a failure of "
              "the server",
          .schedule = {.config = Config(
                           absl::StrCat(RetryOf("RESOURCE_EXHAUSTED"),
                                        R"(, "maxRequestMessageBytes": 100)"),
                           R"(, "retryThrottling": {"maxTokens": 4,
                                                "tokenRatio": 0.1})"),
                       .calls = {large, Ending({kResourceExhausted, kOk})}},
          .grpc = {Result("", "RESOURCE_EXHAUSTED", "-"),
                   Result("-", "RESOURCE_EXHAUSTED", "0")},
          .verbena = {Result("", "RESOURCE_EXHAUSTED", "-"),
                      Result("-,1", "OK", "1")}};
}

ScheduleDifference LimitWhileAway() {
  Call large;
  large.request_bytes = kKiB;
  large.server_is_away = true;
  return {.reason = "gRPC measures a request when it has a connection",
          .schedule = {.config = Config(R"("maxRequestMessageBytes": 100)"),
                       .calls = {Call(), large}},
          .grpc = {Result("-", "OK", "0"), Result("", "UNAVAILABLE", "-")},
          .verbena = {Result("-", "OK", "0"),
                      Result("", "RESOURCE_EXHAUSTED", "-")}};
}

constexpr const char* kTimeout = "methodConfig.timeout";
constexpr const char* kRequestBytes = "methodConfig.maxRequestMessageBytes";
constexpr const char* kResponseBytes = "methodConfig.maxResponseMessageBytes";
constexpr const char* kAttempts = "methodConfig.retryPolicy.maxAttempts";
constexpr const char* kInitial = "methodConfig.retryPolicy.initialBackoff";
constexpr const char* kMost = "methodConfig.retryPolicy.maxBackoff";
constexpr const char* kMaxTokens = "retryThrottling.maxTokens";
constexpr const char* kTokenRatio = "retryThrottling.tokenRatio";

bool IsControl(const std::string& text, size_t position) {
  return absl::ascii_iscntrl(static_cast<unsigned char>(text[position]));
}
bool IsStrayBackslash(const std::string& text, size_t position) {
  return text[position] == '\\';
}
// Also where a byte was taken away.
bool IsLeadingZero(const std::string& text, size_t position) {
  return text[position] == '0' || (position > 0 && text[position - 1] == '0');
}
bool IsPartOfANumberOrName(const std::string& text, size_t position) {
  constexpr absl::string_view kParts = "eEtn.";
  return absl::StrContains(kParts, text[position]);
}
bool IsPlusOrBlank(const std::string& text, size_t position) {
  return text[position] == '+' ||
         absl::ascii_isspace(static_cast<unsigned char>(text[position]));
}

}  // namespace

std::vector<ScheduleDifference> ScheduleDifferences() {
  std::vector<ScheduleDifference> all = {ShortTimeout(),    NoTimeout(),
                                         WholeTokenRatio(), LargeRequest(),
                                         OwnLimit(),        LimitWhileAway()};
  for (size_t i = 0; i < all.size(); ++i) all[i].schedule.id = i;
  return all;
}

const std::vector<ConfigDifference>& ConfigDifferences() {
  static const auto* const all = new std::vector<ConfigDifference>{
      {Taker::kVerbena,
       "null stands for a field that is left out, as in protobuf",
       {"loadBalancingConfig", "loadBalancingPolicy", "methodConfig",
        "methodConfig.name", kTimeout},
       {"null"}},
      {Taker::kVerbena,
       "so does an empty list",
       {"loadBalancingConfig"},
       {"[]"}},
      {Taker::kVerbena,
       "a method's name that is empty is none, as in protobuf",
       {"methodConfig.name"},
       {R"([{"method": ""}])"}},
      {Taker::kGrpc,
       "proposal A2 forbids a method without a service",
       {"methodConfig.name"},
       {R"([{"service": "", "method": "b"}])"}},
      {Taker::kGrpc,
       "protobuf's durations have no plus and no blanks",
       {kTimeout, kInitial, kMost},
       {R"("+1s")", R"(" 1s")", R"("1 s")"}},
      {Taker::kGrpc,
       "nor a minus where none may be negative",
       {kTimeout},
       {R"("-0s")"}},
      {Taker::kVerbena,
       "gRPC C++ cuts pauses to milliseconds, and takes none of zero",
       {kInitial, kMost},
       {R"("0.0009s")", R"("0.000000001s")"}},
      {Taker::kVerbena,
       "integers may have a point or an exponent, as in protobuf",
       {kRequestBytes, kResponseBytes, kMaxTokens},
       {"1.0", "2.0", "1e2", "1E2", R"("1e2")"}},
      {Taker::kVerbena,
       "so may the number of attempts",
       {kAttempts},
       {"2.0", "1e2", "1E2", R"("1e2")"}},
      {Taker::kVerbena, "-0 is 0", {kRequestBytes, kResponseBytes}, {"-0"}},
      {Taker::kVerbena,
       "the number of attempts is protobuf's uint32",
       {kAttempts},
       {"2147483648", "4294967295"}},
      {Taker::kGrpc,
       "numbers are finite and decimal",
       {"methodConfig.retryPolicy.backoffMultiplier"},
       {"1e400", R"("0x10")", R"("inf")", R"("nan")", R"("Infinity")",
        R"("NaN")"}},
      {Taker::kVerbena,
       "proposal A6 has codes as numbers, too, and names in any case",
       {"methodConfig.retryPolicy.retryableStatusCodes"},
       {"[1]", "[14]", "[0]", R"(["14"])", R"(["unavailable"])",
        R"(["Unavailable"])", R"(["UNAVAILABLE", 4])"}},
      {Taker::kGrpc,
       "proposal A6 has 1,000 tokens at most",
       {kMaxTokens},
       {"1001", "2147483647", "2147483648", "4294967295"}},
      {Taker::kVerbena,
       "a ratio is a number like others, however large",
       {kTokenRatio},
       {"1e2", "1E2", "1e-2", R"("1e2")", "4294967296", "9223372036854775807",
        "9223372036854775808", "18446744073709551616"}},
      {Taker::kGrpc,
       "gRPC C++ does not look at a ratio beyond its third decimal",
       {kTokenRatio},
       {R"("1.123s")", R"("0.001s")", R"("1.0000000001s")"}},
  };
  return *all;
}

const ConfigDifference* FindConfigDifference(const std::string& path,
                                             const std::string& value) {
  for (const ConfigDifference& each : ConfigDifferences()) {
    if (std::find(each.paths.begin(), each.paths.end(), path) !=
            each.paths.end() &&
        std::find(each.values.begin(), each.values.end(), value) !=
            each.values.end()) {
      return &each;
    }
  }
  return nullptr;
}

const std::vector<TextDifference>& TextDifferences() {
  static const auto* const all = new std::vector<TextDifference>{
      {Taker::kVerbena, "protobuf's JSON takes control characters in texts",
       IsControl},
      {Taker::kVerbena, "and a backslash before any letter", IsStrayBackslash},
      {Taker::kVerbena, "and zeros before a number", IsLeadingZero},
      {Taker::kVerbena, "and see ConfigDifferences() for numbers and codes",
       IsPartOfANumberOrName},
      {Taker::kGrpc, "protobuf's durations have no plus and no blanks",
       IsPlusOrBlank},
  };
  return *all;
}

}  // namespace verbena::differential
