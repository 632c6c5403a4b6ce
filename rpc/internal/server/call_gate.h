// The objects that see each call of a server before its handler does.

#ifndef VERBENA_RPC_INTERNAL_SERVER_CALL_GATE_H_
#define VERBENA_RPC_INTERNAL_SERVER_CALL_GATE_H_

#include <memory>
#include <vector>

#include "rpc/credentials.h"
#include "rpc/server_interceptor.h"

namespace verbena::internal {

// First the processor, then the interceptors.
struct CallGate {
  std::shared_ptr<AuthMetadataProcessor> processor;  // Or null.
  std::vector<std::shared_ptr<ServerInterceptorFactory>> interceptors;

  // Whether nothing looks at calls.
  bool open() const { return processor == nullptr && interceptors.empty(); }
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_SERVER_CALL_GATE_H_
