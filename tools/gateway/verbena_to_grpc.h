// Forwards calls of Verbena clients to a gRPC server.

#ifndef VERBENA_TOOLS_GATEWAY_VERBENA_TO_GRPC_H_
#define VERBENA_TOOLS_GATEWAY_VERBENA_TO_GRPC_H_

#include <grpcpp/channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <memory>
#include <utility>

#include "rpc/byte_message.h"
#include "rpc/generic_service.h"
#include "rpc/server_context.h"
#include "rpc/server_reactor.h"

namespace verbena::gateway {

// Passes every call on, as GrpcToVerbena does in the other direction. Here the
// client tells whether its call is unary.
class VerbenaToGrpc final : public CallbackGenericService {
 public:
  VerbenaToGrpc(std::shared_ptr<grpc::Channel> backend, bool wait_for_ready)
      : backend_(std::move(backend)), wait_for_ready_(wait_for_ready) {}

  ServerUnaryReactor* CreateUnaryReactor(CallbackServerContext* context,
                                         const ByteMessage* request,
                                         ByteMessage* response) override;
  ServerBidiReactor<ByteMessage, ByteMessage>* CreateReactor(
      CallbackServerContext* context) override;

 private:
  grpc::GenericStub backend_;
  const bool wait_for_ready_;
};

}  // namespace verbena::gateway

#endif  // VERBENA_TOOLS_GATEWAY_VERBENA_TO_GRPC_H_
