#include "rpc/authorization/authorization_policy.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace verbena::internal {
namespace {

using transport::AuthContext;

// The properties of a peer with a certificate have gRPC's names.
constexpr char kUriProperty[] = "peer_uri";
constexpr char kDnsProperty[] = "peer_dns";
constexpr char kSubjectProperty[] = "x509_subject";

bool AnyMatches(const std::vector<TextPattern>& patterns,
                absl::string_view value) {
  return absl::c_any_of(patterns, [&](const TextPattern& pattern) {
    return pattern.Matches(value);
  });
}

bool UsesTls(const AuthContext& peer) {
  return absl::c_any_of(
      peer.FindPropertyValues(transport::kSecurityTypeProperty),
      [](const std::string& type) { return type == "ssl" || type == "tls"; });
}

// Whether the identity comes from a certificate, and not from an
// AuthMetadataProcessor.
bool HasIdentityOfCertificate(const AuthContext& peer) {
  const std::string& name = peer.GetPeerIdentityPropertyName();
  return absl::StartsWith(name, "x509_") || absl::StartsWith(name, "peer_");
}

// A peer with credentials that has no name is known by the empty text: a client
// without a certificate, over TLS. No principal stands for a peer without
// credentials.
bool MatchesPeer(const std::vector<TextPattern>& principals,
                 const AuthContext& peer) {
  const std::vector<std::string> names = PrincipalsOf(peer);
  if (names.empty()) {
    return !peer.FindPropertyValues(transport::kSecurityTypeProperty).empty() &&
           AnyMatches(principals, "");
  }
  return absl::c_any_of(names, [&](const std::string& name) {
    return AnyMatches(principals, name);
  });
}

bool MatchesHeader(const HeaderRule& rule, const Metadata& metadata) {
  const auto [begin, end] = metadata.equal_range(rule.key);
  if (begin == end) return false;
  std::string value = begin->second;
  for (auto it = std::next(begin); it != end; ++it) {
    value.append(",").append(it->second);
  }
  return AnyMatches(rule.values, value);
}

}  // namespace

TextPattern::TextPattern(absl::string_view text) {
  if (text == "*") {
    kind_ = Kind::kPresence;
  } else if (absl::ConsumePrefix(&text, "*")) {
    kind_ = Kind::kSuffix;
  } else if (absl::ConsumeSuffix(&text, "*")) {
    kind_ = Kind::kPrefix;
  } else {
    kind_ = Kind::kExact;
  }
  text_ = std::string(text);
}

bool TextPattern::Matches(absl::string_view value) const {
  switch (kind_) {
    case Kind::kExact:
      return value == text_;
    case Kind::kPrefix:
      return absl::StartsWith(value, text_);
    case Kind::kSuffix:
      return absl::EndsWith(value, text_);
    default:
      return !value.empty();
  }
}

std::vector<std::string> PrincipalsOf(const AuthContext& peer) {
  std::vector<std::string> names;
  const auto add = [&names](const std::vector<std::string>& values) {
    // An empty name is none.
    absl::c_copy_if(values, std::back_inserter(names),
                    [](const std::string& value) { return !value.empty(); });
  };
  if (UsesTls(peer)) {
    for (const char* property :
         {kUriProperty, kDnsProperty, kSubjectProperty}) {
      add(peer.FindPropertyValues(property));
    }
    // Nothing else of a certificate counts, as in gRPC: its issuer may not have
    // checked an e-mail address as it has the subject.
    if (HasIdentityOfCertificate(peer)) return names;
  }
  add(peer.GetPeerIdentity());
  return names;
}

bool AuthorizationRule::Matches(const PolicyRequest& request) const {
  return (paths.empty() || AnyMatches(paths, request.path)) &&
         absl::c_all_of(headers,
                        [&](const HeaderRule& header) {
                          return MatchesHeader(header, request.metadata);
                        }) &&
         (principals.empty() || MatchesPeer(principals, request.peer));
}

AuthorizationPolicy::Decision AuthorizationPolicy::Decide(
    const PolicyRequest& request) const {
  for (const AuthorizationRule& rule : deny_rules_) {
    if (rule.Matches(request)) return {.allowed = false, .rule = rule.name};
  }
  for (const AuthorizationRule& rule : allow_rules_) {
    if (rule.Matches(request)) return {.allowed = true, .rule = rule.name};
  }
  return {};
}

}  // namespace verbena::internal
