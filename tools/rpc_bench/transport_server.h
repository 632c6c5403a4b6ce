// The server of the transport layer.

#ifndef VERBENA_TOOLS_RPC_BENCH_TRANSPORT_SERVER_H_
#define VERBENA_TOOLS_RPC_BENCH_TRANSPORT_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/connection/server_call.h"
#include "transport/server_endpoint.h"

namespace verbena::bench {

// Echoes every call on the poller: the transport's part of a call, with no
// message parsed and no handler looked up.
class TransportServer {
 public:
  // Listens on a free port of `host` ("127.0.0.1", "[::1]"). `device` as in
  // EndpointOptions; `spin_budget` zero: sleeps as soon as there is nothing.
  static absl::StatusOr<std::unique_ptr<TransportServer>> Start(
      const std::string& host, const std::string& device,
      absl::Duration spin_budget);
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
