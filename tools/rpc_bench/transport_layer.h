// Echo over the transport, both sides: a call without protobuf, stubs and
// channels.

#ifndef VERBENA_TOOLS_RPC_BENCH_TRANSPORT_LAYER_H_
#define VERBENA_TOOLS_RPC_BENCH_TRANSPORT_LAYER_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tools/rpc_bench/workload.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/socket_address.h"
#include "transport/connection/client_connection.h"
#include "transport/connection/server_call.h"

namespace verbena::bench {

// Echoes every call on the poller: the transport's part of a call, with no
// message parsed and no handler looked up.
class TransportEcho final : public transport::ServerHandler {
 public:
  void OnCall(transport::ServerCall* call) override;
  void OnCancelled(transport::ServerCall* /*call*/) override {}
};

// Calls over a connection that the calling thread polls. It makes one for each
// case: between cases nobody would answer the server's keepalive.
class TransportLayer final : public Layer {
 public:
  // `server`: where a TransportEcho answers. With a spin budget of zero it
  // sleeps as soon as there is nothing to do.
  TransportLayer(const base::SocketAddress& server,
                 const transport::EndpointOptions& options)
      : server_(server), options_(options) {}

  absl::string_view name() const override { return "transport"; }
  absl::Status Prepare(const Case& measured) override;
  Sample Run(const Case& measured, absl::Duration duration) override;
  void Release() override { connection_.reset(); }

 private:
  const base::SocketAddress server_;
  const transport::EndpointOptions options_;
  // Null between Release() and Prepare().
  std::unique_ptr<transport::ClientConnection> connection_;
};

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_TRANSPORT_LAYER_H_
