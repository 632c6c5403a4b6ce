#include "rpc/internal/service/service_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace verbena::internal {
namespace {

using testing::HasSubstr;

std::string WithMethod(const std::string& fields) {
  return absl::StrCat(R"({"methodConfig": [{"name": [{}], )", fields, "}]}");
}

std::string ErrorOf(const std::string& json) {
  const absl::Status status = ServiceConfig::Parse(json).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << json;
  return std::string(status.message());
}

TEST(ServiceConfigTest, AnEmptyOneSaysNothing) {
  const auto config = ServiceConfig::Parse("{}");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ((*config)->Find("a.B/C"), nullptr);
  EXPECT_TRUE((*config)->policies().empty());
  EXPECT_FALSE((*config)->throttling().has_value());
}

TEST(ServiceConfigTest, TheNarrowestNameHolds) {
  const auto config = ServiceConfig::Parse(R"({"methodConfig": [
      {"name": [{"service": "a.B", "method": "C"}], "timeout": "1s"},
      {"name": [{"service": "a.B"}, {"service": "a.D"}], "timeout": "2.5s"},
      {"name": [{}], "timeout": "3s", "waitForReady": true}]})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ((*config)->Find("a.B/C")->timeout, absl::Seconds(1));
  EXPECT_EQ((*config)->Find("a.B/E")->timeout, absl::Milliseconds(2500));
  EXPECT_EQ((*config)->Find("a.D/C")->timeout, absl::Milliseconds(2500));
  EXPECT_EQ((*config)->Find("x.Y/Z")->timeout, absl::Seconds(3));
  EXPECT_EQ((*config)->Find("x.Y/Z")->wait_for_ready, true);
  EXPECT_FALSE((*config)->Find("a.B/C")->wait_for_ready.has_value());
}

TEST(ServiceConfigTest, ReadsEveryFieldOfARetryPolicy) {
  const auto config = ServiceConfig::Parse(WithMethod(R"(
      "maxRequestMessageBytes": 1024, "maxResponseMessageBytes": "2048",
      "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.1s",
        "maxBackoff": "1s", "backoffMultiplier": 1.5,
        "perAttemptRecvTimeout": "0.5s",
        "retryableStatusCodes": ["UNAVAILABLE", "aborted", 4]})"));
  ASSERT_TRUE(config.ok()) << config.status();
  const MethodConfig& method = *(*config)->Find("a.B/C");
  EXPECT_EQ(method.max_request_bytes, 1024);
  EXPECT_EQ(method.max_response_bytes, 2048);
  EXPECT_EQ(method.retry->max_attempts, 4);
  EXPECT_EQ(method.retry->initial_backoff, absl::Milliseconds(100));
  EXPECT_EQ(method.retry->max_backoff, absl::Seconds(1));
  EXPECT_EQ(method.retry->backoff_multiplier, 1.5);
  EXPECT_EQ(method.retry->attempt_timeout, absl::Milliseconds(500));
  EXPECT_TRUE(method.retry->codes.Contains(absl::StatusCode::kUnavailable));
  EXPECT_TRUE(method.retry->codes.Contains(absl::StatusCode::kAborted));
  EXPECT_TRUE(
      method.retry->codes.Contains(absl::StatusCode::kDeadlineExceeded));
  EXPECT_FALSE(method.retry->codes.Contains(absl::StatusCode::kInternal));
}

TEST(ServiceConfigTest, MoreThanFiveAttemptsAreFive) {
  const auto config = ServiceConfig::Parse(WithMethod(
      R"("hedgingPolicy": {"maxAttempts": 100, "hedgingDelay": "0.5s",
                           "nonFatalStatusCodes": ["UNAVAILABLE"]})"));
  ASSERT_TRUE(config.ok()) << config.status();
  const HedgingPolicy& hedging = *(*config)->Find("a.B/C")->hedging;
  EXPECT_EQ(hedging.max_attempts, 5);
  EXPECT_EQ(hedging.delay, absl::Milliseconds(500));
  EXPECT_TRUE(hedging.non_fatal.Contains(absl::StatusCode::kUnavailable));
}

TEST(ServiceConfigTest, KeepsThePoliciesInTheirOrder) {
  const auto config = ServiceConfig::Parse(R"({"loadBalancingPolicy": "x",
      "loadBalancingConfig": [{"mine": {"a": 1}}, {"round_robin": {}}]})");
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ((*config)->policies().size(), 2);
  EXPECT_EQ((*config)->policies()[0].name, "mine");
  EXPECT_EQ((*config)->policies()[0].config, R"({"a":1})");
  EXPECT_EQ((*config)->policies()[1].name, "round_robin");
}

TEST(ServiceConfigTest, TakesTheOlderNameOfAPolicy) {
  const auto config =
      ServiceConfig::Parse(R"({"loadBalancingPolicy": "ROUND_ROBIN"})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ((*config)->policies()[0].name, "round_robin");
}

TEST(ServiceConfigTest, SkipsFieldsThatNobodyKnows) {
  EXPECT_TRUE(ServiceConfig::Parse(R"({"future": {"x": [1]}})").ok());
  EXPECT_TRUE(ServiceConfig::Parse(WithMethod(R"("future": 1)")).ok());
}

TEST(ServiceConfigTest, ReadsThrottling) {
  const auto config = ServiceConfig::Parse(
      R"({"retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ((*config)->throttling()->max_tokens, 10'000);
  EXPECT_EQ((*config)->throttling()->token_ratio, 100);
}

TEST(ServiceConfigTest, ATokenRatioHasThreeDecimals) {
  const auto ratio = [](const char* text) {
    const auto config = ServiceConfig::Parse(absl::StrCat(
        R"({"retryThrottling": {"maxTokens": 10, "tokenRatio": )", text, "}}"));
    return config.ok() ? (*config)->throttling()->token_ratio : 0;
  };
  EXPECT_EQ(ratio("0.5466"), 546);
  EXPECT_EQ(ratio("0.57"), 570);  // Above 569.99, the product of the doubles.
  EXPECT_EQ(ratio("1"), 1000);
  EXPECT_EQ(ratio("1e300"), 1'000'000);
  EXPECT_EQ(ratio("0.0009"), 0);
}

TEST(ServiceConfigTest, SaysWhereAnErrorIsAndWhatWasSeen) {
  EXPECT_THAT(ErrorOf("["), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("the document is []"));
  EXPECT_THAT(ErrorOf(R"({"methodConfig": {}})"),
              HasSubstr("methodConfig is {}, but must be a list"));
  EXPECT_THAT(ErrorOf(WithMethod(R"("timeout": "1h")")),
              HasSubstr("methodConfig[0].timeout is \"1h\", but must be"));
  for (const char* duration :
       {"1", "s", "-1s", "1m1s", "1..5s", "1sinfs", ".5s", "1.s",
        "1.0123456789s", "315576000001s", "+1s", ""}) {
    EXPECT_THAT(
        ErrorOf(WithMethod(absl::StrCat("\"timeout\": \"", duration, "\""))),
        HasSubstr("methodConfig[0].timeout is"))
        << duration;
  }
  EXPECT_THAT(ErrorOf(WithMethod(R"("waitForReady": "yes")")),
              HasSubstr("methodConfig[0].waitForReady is \"yes\""));
  EXPECT_THAT(ErrorOf(WithMethod(R"("maxRequestMessageBytes": -1)")),
              HasSubstr("maxRequestMessageBytes is -1"));
  EXPECT_THAT(ErrorOf(R"({"methodConfig": [{"name": [{"method": "C"}]}]})"),
              HasSubstr("methodConfig[0].name[0]"));
  EXPECT_THAT(ErrorOf(R"({"methodConfig": [{"name": [{}]}, {"name": [{}]}]})"),
              HasSubstr("methodConfig[1].name[0]"));
  EXPECT_THAT(ErrorOf(R"({"loadBalancingConfig": [{"a": {}, "b": {}}]})"),
              HasSubstr("loadBalancingConfig[0]"));
  EXPECT_THAT(ErrorOf(R"({"loadBalancingConfig": [{"a": 1}]})"),
              HasSubstr("loadBalancingConfig[0].a is 1"));
  EXPECT_THAT(ErrorOf(R"({"retryThrottling": {"maxTokens": 1001}})"),
              HasSubstr("retryThrottling.maxTokens is 1001"));
}

TEST(ServiceConfigTest, TakesTheLargestValues) {
  const auto config = ServiceConfig::Parse(WithMethod(R"(
      "timeout": "315576000000s",
      "maxRequestMessageBytes": 4294967295)"));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ((*config)->Find("a.B/C")->max_request_bytes, UINT32_MAX);
}

TEST(ServiceConfigTest, NumbersInQuotesAreDecimal) {
  for (const char* number : {"0x10", "inf", "nan", "1 2", "1-"}) {
    EXPECT_THAT(ErrorOf(WithMethod(absl::StrCat(
                    "\"maxRequestMessageBytes\": \"", number, "\""))),
                HasSubstr("maxRequestMessageBytes is"))
        << number;
  }
}

TEST(ServiceConfigTest, RefusesPoliciesThatCannotHold) {
  const auto retry = [](const char* attempts, const char* initial,
                        const char* most, const char* multiplier,
                        const char* codes) {
    return WithMethod(absl::StrCat(
        R"("retryPolicy": {"maxAttempts": )", attempts,
        R"(, "initialBackoff": ")", initial, R"(", "maxBackoff": ")", most,
        R"(", "backoffMultiplier": )", multiplier,
        R"(, "retryableStatusCodes": )", codes, "}"));
  };
  EXPECT_TRUE(ServiceConfig::Parse(retry("2", "1s", "1s", "1", "[14]")).ok());
  EXPECT_THAT(ErrorOf(retry("1", "1s", "1s", "1", "[14]")),
              HasSubstr("methodConfig[0].retryPolicy.maxAttempts is 1"));
  EXPECT_THAT(ErrorOf(retry("2", "0s", "1s", "1", "[14]")),
              HasSubstr("initialBackoff"));
  EXPECT_THAT(ErrorOf(retry("2", "1s", "0s", "1", "[14]")),
              HasSubstr("maxBackoff"));
  EXPECT_THAT(ErrorOf(retry("2", "1s", "1s", "0", "[14]")),
              HasSubstr("backoffMultiplier is 0"));
  EXPECT_THAT(ErrorOf(retry("2", "1s", "1s", "1", "[]")),
              HasSubstr("retryableStatusCodes is []"));
  EXPECT_THAT(ErrorOf(retry("2", "1s", "1s", "1", "[\"NOPE\"]")),
              HasSubstr("retryableStatusCodes[0] is \"NOPE\""));
  EXPECT_THAT(ErrorOf(WithMethod(R"("retryPolicy": {"maxAttempts": 2})")),
              HasSubstr("\"initialBackoff\""));
  EXPECT_THAT(ErrorOf(retry("2", "1s", "1s", "1", "[14]")
                          .insert(sizeof(R"({"methodConfig": [{)") - 1,
                                  R"("hedgingPolicy": {"maxAttempts": 2}, )")),
              HasSubstr("methodConfig[0].hedgingPolicy"));
}

}  // namespace
}  // namespace verbena::internal
