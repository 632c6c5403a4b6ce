// Interceptors that log a line for each call when it ends.

#ifndef VERBENA_EXAMPLES_INTERCEPTORS_LOGGING_H_
#define VERBENA_EXAMPLES_INTERCEPTORS_LOGGING_H_

#include <memory>

#include "rpc/client_interceptor.h"
#include "rpc/server_interceptor.h"

namespace interceptors {

// Writes lines to standard error with the method, the numbers of messages sent
// and received, and the status. The server's lines also name the client.
class ClientLogging final : public verbena::ClientInterceptorFactory {
 public:
  std::unique_ptr<verbena::ClientInterceptor> CreateClientInterceptor(
      verbena::ClientRpcInfo* info) override;
};

class ServerLogging final : public verbena::ServerInterceptorFactory {
 public:
  std::unique_ptr<verbena::ServerInterceptor> CreateServerInterceptor(
      verbena::ServerRpcInfo* info) override;
};

}  // namespace interceptors

#endif  // VERBENA_EXAMPLES_INTERCEPTORS_LOGGING_H_
