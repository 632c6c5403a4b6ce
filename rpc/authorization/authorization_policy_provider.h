// Policies that say who may call which method, in gRPC's JSON form (its
// proposal A43).
//
//   auto provider =
//       verbena::StaticDataAuthorizationPolicyProvider::Create(R"({
//         "name": "shop",
//         "deny_rules": [{
//           "name": "nobody-erases",
//           "request": {"paths": ["*/Erase"]}}],
//         "allow_rules": [{
//           "name": "tills-sell",
//           "source": {"principals": ["till-*"]},
//           "request": {"paths": ["/shop.Orders/*"]}}]})");
//   if (!provider.ok()) return provider.status();
//   builder.SetAuthorizationPolicyProvider(*provider);
//
// A call that matches a deny rule is denied. Any other call needs an allow rule
// that it matches. A denied call ends with PERMISSION_DENIED, "Unauthorized RPC
// request rejected.", before its handler and the server's interceptors. The log
// gets a warning with the method, the client and the rule, ten in ten seconds
// at most (rpc/logging.h).
//
// A rule matches a call if its lists do. A list that is empty or left out
// matches every call; also an empty list of principals, which stands for
// everybody who can connect.
// * source.principals: one of them is a name of the client. If the client has
//   a certificate, its names are the URIs and DNS names of the certificate, and
//   its subject. With other credentials they are the values of
//   AuthContext::GetPeerIdentity(). "" is a client that has credentials without
//   a name, such as TLS without a certificate. A client without credentials
//   matches none. ["*", ""] is everybody who has credentials.
// * request.paths: one of them is the method, "/package.Service/Method".
// * request.headers: for each of them, the metadata of the call have its key,
//   and one of its values. Several values of a key are one value, with commas
//   between them.
//
// "abc*" stands for all values that begin so, "*abc" for all that end so, and
// "*" for all that are not empty.
//
// A target of its own, //rpc/authorization.

#ifndef VERBENA_RPC_AUTHORIZATION_AUTHORIZATION_POLICY_PROVIDER_H_
#define VERBENA_RPC_AUTHORIZATION_AUTHORIZATION_POLICY_PROVIDER_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rpc/authorization.h"

namespace verbena {

// Decides by a policy that never changes. Thread-safe.
class StaticDataAuthorizationPolicyProvider final
    : public AuthorizationPolicyProviderInterface {
 public:
  // Reads the policy. INVALID_ARGUMENT says where it is wrong; fields that are
  // not known are errors.
  static absl::StatusOr<std::shared_ptr<StaticDataAuthorizationPolicyProvider>>
  Create(absl::string_view authorization_policy);
  ~StaticDataAuthorizationPolicyProvider() override;

  absl::Status Authorize(const ServerContext& context) override;

 private:
  class Impl;
  explicit StaticDataAuthorizationPolicyProvider(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

// Decides by a policy in a file, which may change while the server runs. A
// thread of its own reads the file now and then. If the file cannot be read, or
// holds no policy, the last policy stays in force, and the log gets a warning.
// Replace the file by rename(2), so that nobody reads half of it. Thread-safe.
class FileWatcherAuthorizationPolicyProvider final
    : public AuthorizationPolicyProviderInterface {
 public:
  // Called when the file has changed: with OK if its policy is in force now;
  // otherwise with the reason why the last one still is. Called once for each
  // change, by the thread that has read the file, one call at a time. Must
  // neither call Reload() nor destroy the provider.
  using OnReload = std::function<void(const absl::Status& status)>;

  // Reads the file at `path`, and again each `refresh_interval`; with
  // absl::InfiniteDuration() only Reload() reads it again. UNAVAILABLE if it
  // cannot be read, or has more than 4 MiB; INVALID_ARGUMENT if it holds no
  // policy, or the interval is not positive; RESOURCE_EXHAUSTED if there is no
  // thread.
  static absl::StatusOr<std::shared_ptr<FileWatcherAuthorizationPolicyProvider>>
  Create(absl::string_view path, absl::Duration refresh_interval,
         OnReload on_reload = nullptr);
  // Waits until the thread has ended; on_reload is called no more.
  ~FileWatcherAuthorizationPolicyProvider() override;

  absl::Status Authorize(const ServerContext& context) override;

  // Reads the file now, for example on SIGHUP. Returns OK if its policy is in
  // force, and otherwise what on_reload is told. Not in a signal handler: it
  // takes locks.
  absl::Status Reload();

 private:
  class Impl;
  explicit FileWatcherAuthorizationPolicyProvider(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace verbena

#endif  // VERBENA_RPC_AUTHORIZATION_AUTHORIZATION_POLICY_PROVIDER_H_
