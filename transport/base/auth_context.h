// The properties of a peer, its identity among them, as far as it has
// proved them.

#ifndef VERBENA_TRANSPORT_BASE_AUTH_CONTEXT_H_
#define VERBENA_TRANSPORT_BASE_AUTH_CONTEXT_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace verbena::transport {

// Properties of a peer by name, each with any number of values. One of them may
// be the peer's identity: then it is authenticated. A value; a const one may be
// read by any number of threads.
class AuthContext {
 public:
  using Properties = std::multimap<std::string, std::string, std::less<>>;

  bool IsPeerAuthenticated() const { return !identity_name_.empty(); }

  // The values of the property that is the peer's identity; none if the peer is
  // not authenticated.
  std::vector<std::string> GetPeerIdentity() const {
    return FindPropertyValues(identity_name_);
  }
  // Its name; empty if the peer is not authenticated.
  const std::string& GetPeerIdentityPropertyName() const {
    return identity_name_;
  }

  std::vector<std::string> FindPropertyValues(absl::string_view name) const {
    std::vector<std::string> values;
    const auto [begin, end] = properties_.equal_range(name);
    for (auto it = begin; it != end; ++it) values.push_back(it->second);
    return values;
  }
  const Properties& properties() const { return properties_; }

  void AddProperty(absl::string_view name, absl::string_view value) {
    properties_.emplace(name, value);
  }
  // Makes that property the identity. False, and nothing else, if there is no
  // property of that name.
  bool SetPeerIdentityPropertyName(absl::string_view name) {
    if (name.empty() || properties_.find(name) == properties_.end()) {
      return false;
    }
    identity_name_ = std::string(name);
    return true;
  }

 private:
  Properties properties_;
  std::string identity_name_;
};

// The property that says which kind of credentials the peer has shown: "local",
// "shared_secret". Its name is gRPC's.
inline constexpr char kSecurityTypeProperty[] = "transport_security_type";

}  // namespace verbena::transport

#endif  // VERBENA_TRANSPORT_BASE_AUTH_CONTEXT_H_
