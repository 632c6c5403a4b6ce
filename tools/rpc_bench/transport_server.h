// The server of the transport layer.

#ifndef VERBENA_TOOLS_RPC_BENCH_TRANSPORT_SERVER_H_
#define VERBENA_TOOLS_RPC_BENCH_TRANSPORT_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "transport/base/endpoint_options.h"
#include "transport/connection/server_call.h"
#include "transport/server_endpoint.h"

namespace verbena::bench {

// Echoes every call on the poller: the transport's part of a call, with no
// message parsed and no handler looked up.
class TransportServer {
 public:
  // Listens on a free port of `host` ("127.0.0.1", "[::1]"). With a spin
  // budget of zero it sleeps as soon as there is nothing to do.
  static absl::StatusOr<std::unique_ptr<TransportServer>> Start(
      const std::string& host,
      const transport::EndpointOptions& endpoint_options);
  ~TransportServer();

  int port() const { return endpoint_->listening().front().port; }

 private:
  class Handler;

  TransportServer();

  std::unique_ptr<Handler> handler_;  // Outlives the endpoint.
  std::unique_ptr<transport::ServerEndpoint> endpoint_;
};

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_TRANSPORT_SERVER_H_
