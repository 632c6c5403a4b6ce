#include "tests/differential/config_documents.h"

#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace verbena::differential {
namespace {

// Values that have the fields below them.
constexpr absl::string_view kObject = "object";
constexpr absl::string_view kListOfObject = "list";

// The members of the object at `path`, which ends with a dot unless it is the
// document.
std::string Members(const std::map<size_t, std::string>& changes,
                    absl::string_view path) {
  std::vector<std::string> members;
  for (size_t i = 0; i < Fields().size(); ++i) {
    absl::string_view name = Fields()[i].path;
    if (!absl::ConsumePrefix(&name, path) || absl::StrContains(name, '.')) {
      continue;
    }
    const auto change = changes.find(i);
    std::string value =
        change != changes.end() ? change->second : Fields()[i].value;
    if (value == kObject || value == kListOfObject) {
      const std::string inner =
          Members(changes, absl::StrCat(Fields()[i].path, "."));
      value = absl::StrCat(value == kObject ? "{" : "[{", inner,
                           value == kObject ? "}" : "}]");
    }
    if (!value.empty()) {
      members.push_back(absl::StrCat("\"", name, "\": ", value));
    }
  }
  return absl::StrJoin(members, ", ");
}

// No field, and values of every type.
constexpr const char* kOfEveryType[] = {
    "",       "null", "true", "false", "{}",     "[]",
    "[null]", "[{}]", "[[]]", "[1]",   "[true]", R"([""])",
};

// Numbers.
constexpr const char* kNumbers[] = {
    "0",
    "-0",
    "1",
    "2",
    "3",
    "5",
    "6",
    "14",
    "16",
    "17",
    "100",
    "1000",
    "1001",
    "-1",
    "0.5",
    "1.5",
    "1.0",
    "2.0",
    "1e2",
    "1E2",
    "1e-2",
    "1e400",
    "0.001",
    "0.0005",
    "0.12345",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "-2147483648",
    "-0.5",
};

// Texts of numbers and words.
constexpr const char* kTexts[] = {
    R"("")",         R"("0")",   R"("1")",
    R"("2")",        R"("3")",   R"("1.5")",
    R"("0.5")",      R"("-1")",  R"("+1")",
    R"(" 1")",       R"("1 ")",  R"("0x10")",
    R"("1e2")",      R"("inf")", R"("nan")",
    R"("Infinity")", R"("NaN")", R"("true")",
    R"("false")",    R"("OK")",  R"("UNAVAILABLE")",
};

// Durations.
constexpr const char* kDurations[] = {
    R"("0s")",
    R"("1s")",
    R"("0.5s")",
    R"("0.1s")",
    R"("1.123s")",
    R"("0.001s")",
    R"("0.0009s")",
    R"("0.000000001s")",
    R"("1.0000000001s")",
    R"("-1s")",
    R"("-0s")",
    R"("+1s")",
    R"("s")",
    R"("1")",
    R"("1.s")",
    R"(".5s")",
    R"("1..5s")",
    R"("1.5.5s")",
    R"("1e3s")",
    R"("01s")",
    R"(" 1s")",
    R"("1s ")",
    R"("1 s")",
    R"("1S")",
    R"("1m")",
    R"("1h")",
    R"("1ms")",
    R"("1m1s")",
    R"("3600s")",
    R"("315576000000s")",
    R"("315576000001s")",
    R"("9223372036854775807s")",
    R"("99999999999999999999s")",
    R"("infs")",
    R"({"seconds": 1})",
};

// Lists of status codes.
constexpr const char* kCodes[] = {
    R"(["UNAVAILABLE"])",
    R"(["unavailable"])",
    R"(["Unavailable"])",
    R"(["OK"])",
    R"(["UNAVAILABLE", "UNAVAILABLE"])",
    R"(["UNAVAILABLE", "NOPE"])",
    R"(["NOPE"])",
    R"(["CANCELLED"])",
    R"(["CANCELED"])",
    R"(["DATA_LOSS"])",
    R"(["14"])",
    "[14]",
    "[0]",
    "[17]",
    "[-1]",
    R"(["UNAVAILABLE", 4])",
    R"(["UNAVAILABLE "])",
};

// Lists of names.
constexpr const char* kNames[] = {
    R"([{"service": "a"}])",
    R"([{"service": "a", "method": "b"}])",
    R"([{"method": "b"}])",
    R"([{"service": ""}])",
    R"([{"method": ""}])",
    R"([{"service": "", "method": ""}])",
    R"([{"service": "", "method": "b"}])",
    R"([{"service": "a", "method": ""}])",
    R"([{"service": null}])",
    R"([{"service": null, "method": "b"}])",
    R"([{"service": "a", "method": null}])",
    R"([{"service": 1}])",
    R"([{"service": "a", "method": 1}])",
    R"([{"service": true}])",
    R"([{"service": "a"}, {"service": "b"}])",
    R"([{"service": "a"}, {"service": "a"}])",
    R"([{}, {}])",
    R"([{"service": "a"}, {"service": "a", "method": "b"}])",
    R"([{"service": "a", "future": 1}])",
    R"([{"service": "a/b"}])",
};

// Policies of balancing.
constexpr const char* kPolicies[] = {
    R"([{"pick_first": {}}])",
    R"([{"nobodys_policy": {}}])",
    R"([{"nobodys_policy": {}}, {"round_robin": {}}])",
    R"([{"pick_first": {}, "round_robin": {}}])",
    R"([{"round_robin": 1}])",
    R"([{"round_robin": null}])",
    R"([{"round_robin": []}])",
    R"([{"round_robin": {"future": 1}}])",
    R"(["round_robin"])",
    R"("round_robin")",
    R"("ROUND_ROBIN")",
    R"("pick_first")",
    R"("nobodys_policy")",
};

}  // namespace

const std::vector<Field>& Fields() {
  static const auto* const fields = new std::vector<Field>{
      {"loadBalancingConfig", R"([{"round_robin": {}}])"},
      {"loadBalancingPolicy", ""},
      {"methodConfig", "list"},
      {"methodConfig.name", R"([{"service": "a.B", "method": "C"}])"},
      {"methodConfig.waitForReady", "true"},
      {"methodConfig.timeout", R"("1.5s")"},
      {"methodConfig.maxRequestMessageBytes", "1024"},
      {"methodConfig.maxResponseMessageBytes", "1024"},
      {"methodConfig.retryPolicy", "object"},
      {"methodConfig.retryPolicy.maxAttempts", "3"},
      {"methodConfig.retryPolicy.initialBackoff", R"("0.1s")"},
      {"methodConfig.retryPolicy.maxBackoff", R"("1s")"},
      {"methodConfig.retryPolicy.backoffMultiplier", "2"},
      {"methodConfig.retryPolicy.retryableStatusCodes", R"(["UNAVAILABLE"])"},
      {"retryThrottling", "object"},
      {"retryThrottling.maxTokens", "10"},
      {"retryThrottling.tokenRatio", "0.1"},
  };
  return *fields;
}

const std::vector<std::string>& Values() {
  static const auto* const values = [] {
    auto* const all = new std::vector<std::string>;
    const auto add = [&](const auto& some) {
      all->insert(all->end(), std::begin(some), std::end(some));
    };
    add(kOfEveryType);
    add(kNumbers);
    add(kTexts);
    add(kDurations);
    add(kCodes);
    add(kNames);
    add(kPolicies);
    return all;
  }();
  return *values;
}

std::string Document(const std::map<size_t, std::string>& changes) {
  return absl::StrCat("{", Members(changes, ""), "}");
}

}  // namespace verbena::differential
