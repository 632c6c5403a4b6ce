// A line for each call, when it has ended.

#ifndef VERBENA_EXAMPLES_INTERCEPTORS_LOGGING_H_
#define VERBENA_EXAMPLES_INTERCEPTORS_LOGGING_H_

#include <memory>

#include "rpc/client_interceptor.h"
#include "rpc/server_interceptor.h"

namespace interceptors {

// Writes to standard error: the method, the messages each way, the status, and
// at the server who called.
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
