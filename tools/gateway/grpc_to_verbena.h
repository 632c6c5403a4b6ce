// Answers gRPC's clients by a server of Verbena.

#ifndef VERBENA_TOOLS_GATEWAY_GRPC_TO_VERBENA_H_
#define VERBENA_TOOLS_GATEWAY_GRPC_TO_VERBENA_H_

#include <grpcpp/generic/async_generic_service.h>

#include <memory>
#include <utility>

#include "rpc/channel.h"
#include "rpc/generic_stub.h"
#include "tools/gateway/unary_methods.h"

namespace verbena::gateway {

// Passes every call on, whatever its method is: messages, metadata, deadline,
// cancellation, and how it ended. Of each direction one message is in flight,
// so who does not read stops who writes.
//
// On gRPC's wire all kinds of call look alike; on Verbena's a unary call is
// another thing than a stream, and a server refuses a call of the wrong kind
// before anything has run. So a method that the gateway knows nothing of is
// called as one that streams, and once more if the server says that it does
// not. Then the gateway knows, and waits for the one message at once.
class GrpcToVerbena final : public grpc::CallbackGenericService {
 public:
  GrpcToVerbena(std::shared_ptr<Channel> backend, bool wait_for_ready)
      : backend_(std::move(backend)), wait_for_ready_(wait_for_ready) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

 private:
  const GenericStub backend_;
  const bool wait_for_ready_;
  UnaryMethods unary_methods_;
};

}  // namespace verbena::gateway

#endif  // VERBENA_TOOLS_GATEWAY_GRPC_TO_VERBENA_H_
