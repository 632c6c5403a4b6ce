// Forwards calls of gRPC clients to a Verbena server.

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
// cancellation, and status. Each direction has one message in flight, so if one
// side does not read, the other cannot write.
//
// On gRPC's wire, all kinds of calls look alike. On Verbena's, unary calls
// differ from streams, and a server refuses a call of the wrong kind before a
// handler runs. So the gateway calls an unknown method as one that streams. If
// the server refuses that, the gateway makes a unary call, and remembers that
// the method is unary.
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
