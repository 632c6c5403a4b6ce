// Stands between a call and the user's code.

#ifndef VERBENA_RPC_INTERNAL_SERVER_HANDLER_GUARD_H_
#define VERBENA_RPC_INTERNAL_SERVER_HANDLER_GUARD_H_

#include <memory>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "rpc/authorization.h"
#include "rpc/credentials.h"
#include "rpc/internal/server/call_state.h"
#include "rpc/internal/server/interception.h"
#include "rpc/internal/server/kept_messages.h"
#include "rpc/server_interceptor.h"
#include "rpc/support/method.h"

namespace verbena::internal {

// The objects that see each call of a server before its handler: first the
// processor, then the authorization, then the interceptors.
struct CallGate {
  std::shared_ptr<AuthMetadataProcessor> processor;  // Or null.
  std::shared_ptr<AuthorizationPolicyProviderInterface> authorization;  // Same.
  std::vector<std::shared_ptr<ServerInterceptorFactory>> interceptors;

  // Whether nothing looks at calls.
  bool open() const {
    return processor == nullptr && authorization == nullptr &&
           interceptors.empty();
  }
};

// Asks the gate before the handler runs, tells the interceptors, and lets no
// exception pass. Serves one call at a time.
class HandlerGuard {
 public:
  // All must outlive it. A null `gate` lets every call pass.
  HandlerGuard(const CallGate* gate, const Method* method, CallState* state,
               KeptMessages* messages)
      : gate_(gate), method_(*method), state_(*state), messages_(*messages) {}
  HandlerGuard(const HandlerGuard&) = delete;
  HandlerGuard& operator=(const HandlerGuard&) = delete;

  // Makes this ready for another call.
  void Reset() { admitted_ = false; }

  // Runs `handler`, which is the user's code, unless the gate is against the
  // call. UNKNOWN if it throws an exception.
  absl::Status Run(absl::FunctionRef<absl::Status()> handler);

  bool has_interceptors() const { return interception_ != nullptr; }
  // The handler of a unary call has ended with `*status`: tells the
  // interceptors of the response and of the end. They may change the status.
  void EndUnary(absl::Status* status);
  // As EndUnary(), for a call that streams. Does nothing without interceptors.
  void End(absl::Status* status) {
    if (ABSL_PREDICT_TRUE(interception_ == nullptr)) return;
    interception_->End(status);
    interception_.reset();
  }

 private:
  // Returns whether the call may go to its handler, by the gate, which is asked
  // once a call. May throw what the user's code throws.
  absl::Status Admit();
  absl::Status ProcessAuthMetadata();
  absl::Status StartInterception();

  const CallGate* const gate_;
  const Method& method_;
  CallState& state_;
  KeptMessages& messages_;
  bool admitted_ = false;                             // The gate was asked.
  std::unique_ptr<ServerInterception> interception_;  // Null if it has none.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVER_HANDLER_GUARD_H_
