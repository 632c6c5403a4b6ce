// Tests of the JSON of policies: what is read, and what each error says.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rpc/authorization/authorization_policy.h"

namespace verbena::internal {
namespace {

using testing::HasSubstr;

std::string ErrorOf(const std::string& json) {
  const absl::Status status = AuthorizationPolicy::Parse(json).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << json;
  return std::string(status.message());
}

// The error of a policy whose only rule has these fields beside its name.
std::string RuleError(const std::string& fields) {
  return ErrorOf(absl::StrCat(R"({"name": "p", "allow_rules": [{"name": "r", )",
                              fields, "}]}"));
}
std::string SourceError(const std::string& source) {
  return RuleError(absl::StrCat("\"source\": ", source));
}
std::string RequestError(const std::string& request) {
  return RuleError(absl::StrCat("\"request\": ", request));
}
std::string HeaderError(const std::string& header) {
  return RequestError(absl::StrCat("{\"headers\": [", header, "]}"));
}

TEST(AuthorizationPolicyReaderTest, ReadsEveryField) {
  const auto policy = AuthorizationPolicy::Parse(R"({"name": "all of them",
      "deny_rules": [{"name": "d", "request": {"paths": ["*/secret"]}}],
      "allow_rules": [{"name": "a",
        "source": {"principals": ["x", "y*", "*z", "*", ""]},
        "request": {"paths": ["/p.S/m", "/p.*", "*"],
                    "headers": [{"key": "k", "values": ["v", ""]}]}}]})");
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_EQ((*policy)->name(), "all of them");
}

TEST(AuthorizationPolicyReaderTest, ListsInsideARuleMayBeEmpty) {
  EXPECT_TRUE(AuthorizationPolicy::Parse(R"({"name": "p", "allow_rules": [
      {"name": "a", "source": {}, "request": {}},
      {"name": "b", "source": {"principals": []},
       "request": {"paths": [], "headers": []}}]})")
                  .ok());
}

TEST(AuthorizationPolicyReaderTest, RulesOfBothListsMayHaveOneName) {
  EXPECT_TRUE(AuthorizationPolicy::Parse(R"({"name": "p",
      "deny_rules": [{"name": "r"}], "allow_rules": [{"name": "r"}]})")
                  .ok());
}

TEST(AuthorizationPolicyReaderTest, SaysWhatIsWrongWithThePolicy) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf("{"), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("the document is []"));
  EXPECT_EQ(ErrorOf("{}"), "the policy has no \"name\"");
  EXPECT_EQ(ErrorOf(R"({"name": 1})"),
            "name is 1, but must be a text in quotes");
  EXPECT_EQ(ErrorOf(R"({"name": ""})"),
            "name is \"\", but must be a name that is not empty");
  EXPECT_EQ(ErrorOf(R"({"name": "p"})"), "the policy has no \"allow_rules\"");
  EXPECT_EQ(ErrorOf(R"({"name": "p", "allow_rules": []})"),
            "allow_rules is [], but must be a list that is not empty");
  EXPECT_EQ(ErrorOf(R"({"name": "p", "allow_rules": {}})"),
            "allow_rules is {}, but must be a list");
  EXPECT_EQ(ErrorOf(R"({"name": "p", "deny_rules": [],
                        "allow_rules": [{"name": "r"}]})"),
            "deny_rules is [], but must be a list that is not empty");
  EXPECT_EQ(ErrorOf(R"({"name": "p", "deny_rules": "x",
                        "allow_rules": [{"name": "r"}]})"),
            "deny_rules is \"x\", but must be a list");
  EXPECT_EQ(ErrorOf(R"({"name": "p", "deny_rule": []})"),
            "the policy has a field \"deny_rule\", which is not one of name, "
            "deny_rules, allow_rules");
  EXPECT_THAT(ErrorOf(R"({"name": "p", "allow_rules": [{"name": "r"}],
                          "audit_logging_options": {}})"),
              HasSubstr("audit_logging_options is not supported"));
}

TEST(AuthorizationPolicyReaderTest, TakesNoFieldTwice) {
  // Which of the two holds would be anybody's guess.
  EXPECT_THAT(ErrorOf(R"({"name": "p", "deny_rules": [{"name": "d"}],
                          "deny_rules": [{"name": "e"}],
                          "allow_rules": [{"name": "r"}]})"),
              HasSubstr("deny_rules"));
  EXPECT_THAT(SourceError(R"({"principals": ["a"], "principals": ["b"]})"),
              HasSubstr("principals"));
}

TEST(AuthorizationPolicyReaderTest, NullIsNotAFieldThatIsLeftOut) {
  EXPECT_EQ(ErrorOf(R"({"name": "p", "deny_rules": null,
                        "allow_rules": [{"name": "r"}]})"),
            "the policy has null for \"deny_rules\": leave it out");
  EXPECT_EQ(SourceError("null"),
            "allow_rules[0] has null for \"source\": leave it out");
  EXPECT_EQ(SourceError(R"({"principals": null})"),
            "allow_rules[0].source has null for \"principals\": leave it out");
  EXPECT_EQ(SourceError(R"({"principals": [null]})"),
            "allow_rules[0].source.principals[0] is null, but must be a text "
            "in quotes");
  EXPECT_EQ(RequestError(R"({"headers": null})"),
            "allow_rules[0].request has null for \"headers\": leave it out");
}

TEST(AuthorizationPolicyReaderTest, SaysWhatIsWrongWithARule) {
  EXPECT_EQ(ErrorOf(R"({"name": "p", "allow_rules": ["r"]})"),
            "allow_rules[0] is \"r\", but must be an object");
  EXPECT_EQ(ErrorOf(R"({"name": "p", "allow_rules": [{"name": "r"}, {}]})"),
            "allow_rules[1] has no \"name\"");
  EXPECT_EQ(ErrorOf(R"({"name": "p", "allow_rules": [{"name": ""}]})"),
            "allow_rules[0].name is \"\", but must be a name that is not "
            "empty");
  EXPECT_EQ(ErrorOf(R"({"name": "p",
                        "allow_rules": [{"name": "r"}, {"name": "r"}]})"),
            "allow_rules[1] is {\"name\":\"r\"}, but must be a rule whose name "
            "does not occur twice");
  EXPECT_EQ(ErrorOf(R"({"name": "p", "allow_rules": [{"name": "r"}],
                        "deny_rules": [{"name": "d", "Source": {}}]})"),
            "deny_rules[0] has a field \"Source\", which is not one of name, "
            "source, request");
}

TEST(AuthorizationPolicyReaderTest, SaysWhatIsWrongWithASource) {
  EXPECT_EQ(SourceError("[]"),
            "allow_rules[0].source is [], but must be an object");
  EXPECT_EQ(SourceError(R"({"principal": []})"),
            "allow_rules[0].source has a field \"principal\", which is not one "
            "of principals");
  EXPECT_EQ(SourceError(R"({"principals": "x"})"),
            "allow_rules[0].source.principals is \"x\", but must be a list");
  EXPECT_EQ(SourceError(R"({"principals": ["x", 5]})"),
            "allow_rules[0].source.principals[1] is 5, but must be a text in "
            "quotes");
}

TEST(AuthorizationPolicyReaderTest, SaysWhatIsWrongWithARequest) {
  EXPECT_EQ(RequestError("true"),
            "allow_rules[0].request is true, but must be an object");
  EXPECT_EQ(RequestError(R"({"path": []})"),
            "allow_rules[0].request has a field \"path\", which is not one of "
            "paths, headers");
  EXPECT_EQ(RequestError(R"({"paths": {}})"),
            "allow_rules[0].request.paths is {}, but must be a list");
  EXPECT_EQ(RequestError(R"({"paths": [["/a/b"]]})"),
            "allow_rules[0].request.paths[0] is [\"/a/b\"], but must be a text "
            "in quotes");
  EXPECT_EQ(RequestError(R"({"headers": {}})"),
            "allow_rules[0].request.headers is {}, but must be a list");
}

TEST(AuthorizationPolicyReaderTest, RefusesPathsThatNoMethodHas) {
  for (const char* path : {"", "p.S/m", "p*", "/p.S/m\", \"p.S/m"}) {
    EXPECT_THAT(RequestError(absl::StrCat("{\"paths\": [\"", path, "\"]}")),
                HasSubstr("but must be a path that begins with a slash"))
        << path;
  }
}

TEST(AuthorizationPolicyReaderTest, SaysWhatIsWrongWithAHeader) {
  EXPECT_EQ(HeaderError("1"),
            "allow_rules[0].request.headers[0] is 1, but must be an object");
  EXPECT_EQ(HeaderError(R"({"values": ["v"]})"),
            "allow_rules[0].request.headers[0] has no \"key\"");
  EXPECT_EQ(HeaderError(R"({"key": "k"})"),
            "allow_rules[0].request.headers[0] has no \"values\"");
  EXPECT_EQ(HeaderError(R"({"key": "", "values": ["v"]})"),
            "allow_rules[0].request.headers[0].key is \"\", but must be the "
            "key of a header");
  EXPECT_EQ(HeaderError(R"({"key": ["k"], "values": ["v"]})"),
            "allow_rules[0].request.headers[0].key is [\"k\"], but must be a "
            "text in quotes");
  EXPECT_EQ(HeaderError(R"({"key": "k", "values": []})"),
            "allow_rules[0].request.headers[0].values is [], but must be a "
            "list that is not empty");
  EXPECT_EQ(HeaderError(R"({"key": "k", "values": "v"})"),
            "allow_rules[0].request.headers[0].values is \"v\", but must be a "
            "list");
  EXPECT_EQ(HeaderError(R"({"key": "k", "values": ["v", 2]})"),
            "allow_rules[0].request.headers[0].values[1] is 2, but must be a "
            "text in quotes");
  EXPECT_EQ(HeaderError(R"({"key": "k", "value": ["v"]})"),
            "allow_rules[0].request.headers[0] has a field \"value\", which is "
            "not one of key, values");
}

TEST(AuthorizationPolicyReaderTest, RefusesHeadersOfHttpAndOfGrpc) {
  for (const char* key :
       {"host", "Host", "connection", "keep-alive", "proxy-authenticate",
        "Proxy-Authorization", "te", "trailer", "transfer-encoding", "upgrade",
        ":path", ":authority", "grpc-timeout", "GRPC-Encoding", "grpc-"}) {
    EXPECT_THAT(
        HeaderError(
            absl::StrCat("{\"key\": \"", key, R"(", "values": ["*"]})")),
        HasSubstr(absl::StrCat("allow_rules[0].request.headers[0].key is \"",
                               key, "\", but must be a header that a policy")))
        << key;
  }
}

}  // namespace
}  // namespace verbena::internal
