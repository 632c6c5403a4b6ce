// The interceptors of one call of a server.

#ifndef VERBENA_RPC_INTERNAL_SERVER_INTERCEPTION_H_
#define VERBENA_RPC_INTERNAL_SERVER_INTERCEPTION_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message_lite.h"
#include "rpc/internal/stream/message_hooks.h"
#include "rpc/server_context.h"
#include "rpc/server_interceptor.h"
#include "rpc/stream.h"

namespace verbena::internal {

// Calls the interceptors in their orders, and sees to it that each whose
// OnStart() was called hears of the end. No exception of theirs leaves it: it
// becomes the status of the call.
class ServerInterception final : public MessageHooks {
 public:
  using Factories = std::vector<std::shared_ptr<ServerInterceptorFactory>>;

  // Null if no factory makes an interceptor for the call. The name and
  // `call` must live until End().
  static std::unique_ptr<ServerInterception> New(const Factories& factories,
                                                 absl::string_view method,
                                                 RpcType type,
                                                 ServerCallState* call);
  ~ServerInterception() = default;

  // Calls OnStart() of the interceptors. If the result is not OK, the call ends
  // with it. End() must follow in any case.
  absl::Status Start();
  // As MessageHooks.
  void OnSendMessage(const google::protobuf::MessageLite& message) override;
  void OnReceiveMessage(google::protobuf::MessageLite* message) override;
  // The call ends with `*status`, which this may change. Once; the last call.
  void End(absl::Status* status);

 private:
  ServerInterception(absl::string_view method, RpcType type,
                     ServerCallState* call)
      : context_(call), info_(method, type, &context_) {}

  void Guard(absl::FunctionRef<void()> hook);
  // If one has thrown an exception, that is the status.
  void TakeException(absl::Status* status);

  ServerContext context_;
  ServerRpcInfo info_;
  std::vector<std::unique_ptr<ServerInterceptor>> interceptors_;
  size_t started_ = 0;              // Those whose OnStart() was called.
  std::atomic<bool> threw_{false};  // An interceptor has thrown.
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVER_INTERCEPTION_H_
