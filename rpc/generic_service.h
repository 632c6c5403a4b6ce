// Answers calls of methods by their names, without their .proto.
//
//   class Proxy final : public verbena::GenericService {
//     absl::Status HandleUnary(verbena::ServerContext* context,
//                              const verbena::ByteMessage* request,
//                              verbena::ByteMessage* response) override {
//       ... context->method() is "package.Service/Method" ...
//     }
//   };
//   builder.RegisterGenericService(&proxy);
//
// For proxies, tools, and tests. Handlers may block, as those of any
// Service. Those of a CallbackGenericService must not, as with gRPC's class
// of that name.

#ifndef VERBENA_RPC_GENERIC_SERVICE_H_
#define VERBENA_RPC_GENERIC_SERVICE_H_

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "rpc/byte_message.h"
#include "rpc/server_context.h"
#include "rpc/server_reactor.h"
#include "rpc/server_stream.h"
#include "rpc/service.h"

namespace verbena {

// Answers every method that no registered service has. The rules of Service and
// its handlers hold here too. The client decides which of the two functions is
// called; one that is not overridden ends the call with UNIMPLEMENTED.
//
// ServerContext::method() is what the client has sent: of the form of a
// method's name and at most 1024 bytes long, but there need be no such method.
class GenericService {
 public:
  GenericService();
  GenericService(const GenericService&) = delete;
  GenericService& operator=(const GenericService&) = delete;
  virtual ~GenericService();

  // A call of one message each way.
  virtual absl::Status HandleUnary(ServerContext* context,
                                   const ByteMessage* request,
                                   ByteMessage* response);

  // A call of a method that streams its requests, its responses, or both: where
  // one side sends only one message, the stream has only one.
  virtual absl::Status HandleStream(
      ServerContext* context,
      ServerReaderWriter<ByteMessage, ByteMessage>* stream);

  // See Service. Streams run on workers in any mode.
  void set_handler_mode(HandlerMode mode) { handler_mode_ = mode; }
  std::optional<HandlerMode> handler_mode() const { return handler_mode_; }

 protected:
  // With the methods that answer unary calls and streams. Neither is null.
  GenericService(std::unique_ptr<internal::Method> unary_method,
                 std::unique_ptr<internal::Method> streaming_method);

 private:
  friend class internal::MethodRegistry;

  std::optional<HandlerMode> handler_mode_;
  const std::unique_ptr<internal::Method> unary_method_;
  const std::unique_ptr<internal::Method> streaming_method_;
};

// As GenericService, but with reactors: any number of streams may be open
// without a thread each. The rules of rpc/server_reactor.h for a
// CallbackService hold here.
class CallbackGenericService : public GenericService {
 public:
  CallbackGenericService();

  // A call of one message each way. Both live until OnDone().
  virtual ServerUnaryReactor* CreateUnaryReactor(CallbackServerContext* context,
                                                 const ByteMessage* request,
                                                 ByteMessage* response);

  // A call of a method that streams: see HandleStream().
  virtual ServerBidiReactor<ByteMessage, ByteMessage>* CreateReactor(
      CallbackServerContext* context);
};

}  // namespace verbena

#endif  // VERBENA_RPC_GENERIC_SERVICE_H_
