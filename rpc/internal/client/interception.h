// The interceptors of one call of a client.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_INTERCEPTION_H_
#define VERBENA_RPC_INTERNAL_CLIENT_INTERCEPTION_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message_lite.h"
#include "rpc/client_context.h"
#include "rpc/client_interceptor.h"
#include "rpc/internal/stream/message_hooks.h"
#include "rpc/metadata.h"
#include "rpc/stream.h"
#include "transport/base/mutex.h"

namespace verbena::internal {

// Calls the interceptors in their orders, and sees to it that each whose
// OnStart() was called hears of the end, once and last: a thread may still be
// writing when another one has heard that the call has ended.
class ClientInterception final : public MessageHooks {
 public:
  using Factories = std::vector<std::shared_ptr<ClientInterceptorFactory>>;

  // Null if no factory makes an interceptor for the call. The name and the
  // context must live until End().
  static std::unique_ptr<ClientInterception> New(const Factories& factories,
                                                 absl::string_view method,
                                                 RpcType type,
                                                 ClientContext* context);
  ~ClientInterception() = default;

  // Calls OnStart() of the interceptors. If the result is not OK, the call ends
  // with it. End() must follow in any case.
  absl::Status Start();
  // As MessageHooks. Do nothing once the call has ended.
  void OnSendMessage(const google::protobuf::MessageLite& message) override;
  void OnReceiveMessage(google::protobuf::MessageLite* message) override;
  // The call has ended with `*status`, and nobody writes to the context any
  // more. May change the status. Takes the interceptors' metadata out of the
  // context, and destroys the interceptors.
  void End(absl::Status* status);

 private:
  ClientInterception(absl::string_view method, RpcType type,
                     ClientContext* context)
      : info_(method, type, context) {}

  void TellInitialMetadata() ABSL_EXCLUSIVE_LOCKS_REQUIRED(receiving_);

  ClientRpcInfo info_;
  std::vector<std::unique_ptr<ClientInterceptor>> interceptors_;
  size_t started_ = 0;  // Those whose OnStart() was called.
  Metadata users_metadata_;

  // Held while interceptors are told of a message, one for each direction.
  base::Mutex sending_;
  base::Mutex receiving_;
  bool sent_all_ ABSL_GUARDED_BY(sending_) = false;
  bool received_all_ ABSL_GUARDED_BY(receiving_) = false;
  bool told_initial_metadata_ ABSL_GUARDED_BY(receiving_) = false;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_INTERCEPTION_H_
