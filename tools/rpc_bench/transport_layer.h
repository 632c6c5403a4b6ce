// Echo over the transport, both sides: a call without protobuf, stubs and
// channels.

#ifndef VERBENA_TOOLS_RPC_BENCH_TRANSPORT_LAYER_H_
#define VERBENA_TOOLS_RPC_BENCH_TRANSPORT_LAYER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tools/rpc_bench/workload.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/socket_address.h"
#include "transport/connection/client_connection.h"
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

// Calls over a connection that the calling thread polls. It makes one for each
// case: between cases nobody would answer the server's keepalive.
class TransportLayer final : public Layer {
 public:
  // `server`: where a TransportServer listens. With a spin budget of zero
  // it sleeps as soon as there is nothing to do.
  TransportLayer(const base::SocketAddress& server,
                 const transport::EndpointOptions& options);
  ~TransportLayer() override;

  absl::string_view name() const override { return "transport"; }
  absl::Status Prepare(const Case& measured) override;
  Sample Run(const Case& measured, absl::Duration duration) override;
  void Release() override;

 private:
  const base::SocketAddress server_;
  const transport::EndpointOptions options_;
  // Null between Release() and Prepare().
  std::unique_ptr<transport::ClientConnection> connection_;
};

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_TRANSPORT_LAYER_H_
