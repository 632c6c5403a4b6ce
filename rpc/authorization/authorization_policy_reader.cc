// The JSON of an authorization policy.

#include <initializer_list>
#include <optional>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/struct.pb.h"
#include "rpc/authorization/authorization_policy.h"
#include "rpc/internal/service/json_value.h"
#include "transport/base/status_macros.h"

namespace verbena::internal {
namespace {

// The path of the document itself, where a message has to name it.
constexpr char kDocument[] = "the policy";

absl::Status CheckFields(const JsonValue& object,
                         std::initializer_list<absl::string_view> known) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, object.Names());
  for (const std::string& name : names) {
    const std::string path = object.path().empty() ? kDocument : object.path();
    if (!absl::c_linear_search(known, name)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " has a field \"", absl::CHexEscape(name),
                       "\", which is not one of ", absl::StrJoin(known, ", ")));
    }
    ASSIGN_OR_RETURN(const auto field, object.Field(name));
    // JsonValue takes null for a field that is left out. A policy must say what
    // it means.
    if (!field.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " has null for \"", name, "\": leave it out"));
    }
  }
  return absl::OkStatus();
}

// The field `name` of `object`, which must be there.
absl::StatusOr<JsonValue> Required(const JsonValue& object,
                                   absl::string_view name) {
  ASSIGN_OR_RETURN(const std::optional<JsonValue> field, object.Field(name));
  if (field.has_value()) return *field;
  return absl::InvalidArgumentError(
      absl::StrCat(object.path().empty() ? kDocument : object.path(),
                   " has no \"", name, "\""));
}

absl::StatusOr<std::string> ReadName(const JsonValue& object) {
  ASSIGN_OR_RETURN(const JsonValue field, Required(object, "name"));
  ASSIGN_OR_RETURN(std::string name, field.String());
  if (name.empty()) return field.MustBe("a name that is not empty");
  return name;
}

absl::StatusOr<std::vector<TextPattern>> ReadPatterns(const JsonValue& list) {
  ASSIGN_OR_RETURN(const std::vector<JsonValue> elements, list.Elements());
  std::vector<TextPattern> patterns;
  for (const JsonValue& element : elements) {
    ASSIGN_OR_RETURN(const std::string text, element.String());
    patterns.emplace_back(text);
  }
  return patterns;
}

// Refuses patterns that no method matches: in a deny rule they would be a hole
// that nobody sees.
absl::StatusOr<std::vector<TextPattern>> ReadPaths(const JsonValue& list) {
  ASSIGN_OR_RETURN(const std::vector<JsonValue> elements, list.Elements());
  for (const JsonValue& element : elements) {
    ASSIGN_OR_RETURN(const std::string text, element.String());
    if (!absl::StartsWith(text, "/") && !absl::StartsWith(text, "*")) {
      return element.MustBe(
          "a path that begins with a slash, \"/package.Service/Method\", or a "
          "pattern that begins with a slash or an asterisk");
    }
  }
  return ReadPatterns(list);
}

// As the proposal has it: what belongs to HTTP or to gRPC itself.
bool IsReservedHeader(absl::string_view key) {
  constexpr absl::string_view kReserved[] = {"connection",
                                             "host",
                                             "keep-alive",
                                             "proxy-authenticate",
                                             "proxy-authorization",
                                             "te",
                                             "trailer",
                                             "transfer-encoding",
                                             "upgrade"};
  return absl::StartsWith(key, ":") || absl::StartsWith(key, "grpc-") ||
         absl::c_linear_search(kReserved, key);
}

absl::StatusOr<HeaderRule> ReadHeader(const JsonValue& object) {
  RETURN_IF_ERROR(CheckFields(object, {"key", "values"}));
  HeaderRule header;
  ASSIGN_OR_RETURN(const JsonValue key, Required(object, "key"));
  ASSIGN_OR_RETURN(header.key, key.String());
  // As keys of metadata are: see metadata.h.
  absl::AsciiStrToLower(&header.key);
  if (header.key.empty()) return key.MustBe("the key of a header");
  if (IsReservedHeader(header.key)) {
    return key.MustBe(
        "a header that a policy may look at: not host, not one of a single "
        "hop such as connection, and none that begins with : or grpc-");
  }
  ASSIGN_OR_RETURN(const JsonValue values, Required(object, "values"));
  ASSIGN_OR_RETURN(header.values, ReadPatterns(values));
  if (header.values.empty()) return values.MustBe("a list that is not empty");
  return header;
}

absl::Status ReadSource(const JsonValue& object, AuthorizationRule* rule) {
  RETURN_IF_ERROR(CheckFields(object, {"principals"}));
  ASSIGN_OR_RETURN(const auto principals, object.Field("principals"));
  if (principals.has_value()) {
    ASSIGN_OR_RETURN(rule->principals, ReadPatterns(*principals));
  }
  return absl::OkStatus();
}

absl::Status ReadRequest(const JsonValue& object, AuthorizationRule* rule) {
  RETURN_IF_ERROR(CheckFields(object, {"paths", "headers"}));
  ASSIGN_OR_RETURN(const auto paths, object.Field("paths"));
  if (paths.has_value()) {
    ASSIGN_OR_RETURN(rule->paths, ReadPaths(*paths));
  }
  ASSIGN_OR_RETURN(const auto headers, object.Field("headers"));
  if (!headers.has_value()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<JsonValue> elements, headers->Elements());
  for (const JsonValue& element : elements) {
    ASSIGN_OR_RETURN(HeaderRule header, ReadHeader(element));
    rule->headers.push_back(std::move(header));
  }
  return absl::OkStatus();
}

absl::StatusOr<AuthorizationRule> ReadRule(const JsonValue& object) {
  RETURN_IF_ERROR(CheckFields(object, {"name", "source", "request"}));
  AuthorizationRule rule;
  ASSIGN_OR_RETURN(rule.name, ReadName(object));
  ASSIGN_OR_RETURN(const auto source, object.Field("source"));
  if (source.has_value()) RETURN_IF_ERROR(ReadSource(*source, &rule));
  ASSIGN_OR_RETURN(const auto request, object.Field("request"));
  if (request.has_value()) RETURN_IF_ERROR(ReadRequest(*request, &rule));
  return rule;
}

absl::StatusOr<std::vector<AuthorizationRule>> ReadRules(
    const JsonValue& list) {
  ASSIGN_OR_RETURN(const std::vector<JsonValue> elements, list.Elements());
  if (elements.empty()) return list.MustBe("a list that is not empty");
  std::vector<AuthorizationRule> rules;
  std::set<std::string> names;
  for (const JsonValue& element : elements) {
    ASSIGN_OR_RETURN(AuthorizationRule rule, ReadRule(element));
    if (!names.insert(rule.name).second) {
      return element.MustBe("a rule whose name does not occur twice");
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

}  // namespace

// Fills an AuthorizationPolicy.
class AuthorizationPolicyReader {
 public:
  absl::Status Read(const JsonValue& document);

  std::shared_ptr<AuthorizationPolicy> policy{new AuthorizationPolicy()};
};

absl::Status AuthorizationPolicyReader::Read(const JsonValue& document) {
  ASSIGN_OR_RETURN(const auto audit, document.Field("audit_logging_options"));
  if (audit.has_value()) {
    return absl::InvalidArgumentError(
        "audit_logging_options is not supported: leave it out. Denied calls "
        "are logged in any case");
  }
  RETURN_IF_ERROR(CheckFields(document, {"name", "deny_rules", "allow_rules"}));
  ASSIGN_OR_RETURN(policy->name_, ReadName(document));
  ASSIGN_OR_RETURN(const auto deny_rules, document.Field("deny_rules"));
  if (deny_rules.has_value()) {
    ASSIGN_OR_RETURN(policy->deny_rules_, ReadRules(*deny_rules));
  }
  ASSIGN_OR_RETURN(const JsonValue allow_rules,
                   Required(document, "allow_rules"));
  ASSIGN_OR_RETURN(policy->allow_rules_, ReadRules(allow_rules));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const AuthorizationPolicy>>
AuthorizationPolicy::Parse(absl::string_view json) {
  ASSIGN_OR_RETURN(const google::protobuf::Value document,
                   JsonValue::ParseObject(json));
  AuthorizationPolicyReader reader;
  RETURN_IF_ERROR(reader.Read(JsonValue(document, "")));
  return std::shared_ptr<const AuthorizationPolicy>(std::move(reader.policy));
}

}  // namespace verbena::internal
