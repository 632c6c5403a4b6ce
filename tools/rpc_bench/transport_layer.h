// Echo over the transport, both sides: a call without protobuf, stubs and
// channels.

#ifndef VERBENA_TOOLS_RPC_BENCH_TRANSPORT_LAYER_H_
#define VERBENA_TOOLS_RPC_BENCH_TRANSPORT_LAYER_H_

#include <memory>

#include "tools/load/workload.h"
#include "transport/base/endpoint_options.h"
#include "transport/base/socket_address.h"
#include "transport/server/server_call.h"

namespace verbena::bench {

// Echoes every call on the poller: the transport's part of a call, with no
// message parsed and no handler looked up.
class TransportEcho final : public transport::ServerHandler {
 public:
  void OnCall(transport::ServerCall* call) override;
  void OnCancelled(transport::ServerCall* /*call*/) override {}
};

// Calls the TransportEcho at `server` over a connection that the calling thread
// polls. It makes one for each case: between cases nobody would answer the
// server's keepalive. With a spin budget of zero it sleeps as soon as there is
// nothing to do.
std::unique_ptr<Layer> NewTransportLayer(
    const base::SocketAddress& server,
    const transport::EndpointOptions& options);

}  // namespace verbena::bench

#endif  // VERBENA_TOOLS_RPC_BENCH_TRANSPORT_LAYER_H_
