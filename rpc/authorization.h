// Decisions on which calls a server takes, before their handlers run.
//
// Programs rarely need this file: rpc/authorization/ has the provider that
// decides by a policy in gRPC's JSON form.

#ifndef VERBENA_RPC_AUTHORIZATION_H_
#define VERBENA_RPC_AUTHORIZATION_H_

#include "absl/status/status.h"
#include "rpc/server_context.h"

namespace verbena {

// Decides for each call of a server whether its client may make it. Set by
// ServerBuilder::SetAuthorizationPolicyProvider(). Thread-safe, because calls
// run on many threads. May serve several servers.
class AuthorizationPolicyProviderInterface {
 public:
  virtual ~AuthorizationPolicyProviderInterface() = default;

  // Decides by the method(), the auth_context(), the client_metadata() and the
  // peer() of the call. If the status is not OK, the call ends with it, and
  // neither interceptors nor a handler see the call.
  //
  // Runs where the handler runs, after the AuthMetadataProcessor if there is
  // one: it sees the identity that the processor has found, and not the
  // metadata that the processor has consumed. Must not block if the handler
  // must not: see HandlerMode.
  virtual absl::Status Authorize(const ServerContext& context) = 0;
};

}  // namespace verbena

#endif  // VERBENA_RPC_AUTHORIZATION_H_
