// A policy that says who may call which method.

#ifndef VERBENA_RPC_AUTHORIZATION_AUTHORIZATION_POLICY_H_
#define VERBENA_RPC_AUTHORIZATION_AUTHORIZATION_POLICY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/metadata.h"
#include "transport/base/auth_context.h"

namespace verbena::internal {

// A text of a policy that stands for values: "abc" for that value, "abc*" for
// those that begin so, "*abc" for those that end so, and "*" for all that are
// not empty. Other asterisks are letters like others.
class TextPattern {
 public:
  explicit TextPattern(absl::string_view text);

  bool Matches(absl::string_view value) const;

 private:
  enum class Kind : uint8_t { kExact, kPrefix, kSuffix, kPresence };

  Kind kind_;
  std::string text_;  // Without the asterisk.
};

// A call, as a policy sees it. Refers to its parts.
struct PolicyRequest {
  absl::string_view path;  // "/package.Service/Method".
  const transport::AuthContext& peer;
  const Metadata& metadata;
};

// A header that a rule asks for: metadata of the call. Several values of one
// key are one value, with commas between them.
struct HeaderRule {
  std::string key;                  // In lower case.
  std::vector<TextPattern> values;  // At least one must match.
};

// A rule of a policy. Lists that are empty match everything.
struct AuthorizationRule {
  bool Matches(const PolicyRequest& request) const;

  std::string name;
  std::vector<TextPattern> principals;  // At least one must match.
  std::vector<TextPattern> paths;       // At least one must match.
  std::vector<HeaderRule> headers;      // All must match.
};

// The names by which `principals` of a policy know a peer. A client's
// certificate has its URI names, its DNS names and its subject, in this order.
// Other credentials have the values of the identity. Empty if the peer is not
// authenticated.
std::vector<std::string> PrincipalsOf(const transport::AuthContext& peer);

// gRPC's authorization policy (its proposal A43). Immutable.
class AuthorizationPolicy {
 public:
  struct Decision {
    bool allowed = false;
    absl::string_view rule;  // The one that matched; empty if none did.
  };

  // Reads the JSON. Fields that are not known are errors, as the proposal has
  // it, because a rule that is understood in part allows too much.
  // INVALID_ARGUMENT names the path of what is wrong, and its value.
  static absl::StatusOr<std::shared_ptr<const AuthorizationPolicy>> Parse(
      absl::string_view json);

  // Looks for a deny rule that matches, then for an allow rule. If none does,
  // the call is denied. The policy must outlive the decision.
  Decision Decide(const PolicyRequest& request) const;

  const std::string& name() const { return name_; }

 private:
  friend class AuthorizationPolicyReader;

  AuthorizationPolicy() = default;

  std::string name_;
  std::vector<AuthorizationRule> deny_rules_;
  std::vector<AuthorizationRule> allow_rules_;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_AUTHORIZATION_AUTHORIZATION_POLICY_H_
