// The active side of a connection, up to the request.

#ifndef VERBENA_TRANSPORT_SOFT_CM_CONNECTION_REQUESTER_H_
#define VERBENA_TRANSPORT_SOFT_CM_CONNECTION_REQUESTER_H_

#include <rdma/rdma_cma.h>

#include <chrono>

#include "absl/base/thread_annotations.h"
#include "transport/soft/base/peer_users.h"
#include "transport/soft/cm/cm_endpoint.h"
#include "transport/soft/cm/cm_locks.h"
#include "transport/soft/cm/connection_handshake.h"
#include "transport/soft/cm/endpoint_callbacks.h"
#include "transport/soft/remote/network.h"

namespace verbena::soft {

// Finds the listener, sends it the request, and leaves the rest to the
// handshake.
//
// Thread-safe: its methods are called with kEndpoints held.
class ConnectionRequester {
 public:
  ConnectionRequester(const PeerUsers& users, Network& network,
                      EndpointCallbacks& callbacks,
                      ConnectionHandshake& handshake)
      : users_(users),
        network_(network),
        callbacks_(callbacks),
        handshake_(handshake) {}
  ConnectionRequester(const ConnectionRequester&) = delete;
  ConnectionRequester& operator=(const ConnectionRequester&) = delete;

  // rdma_connect: returns 0 or an errno.
  int Connect(CmEndpoint& endpoint, const rdma_conn_param* parameters,
              ClosingSockets& closing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

  // See full_provider.h.
  void WaitForListeners() ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) {
    waits_for_listeners_ = true;
  }

 private:
  void Try(CmEndpoint& endpoint, ClosingSockets& closing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  void TryAgainIn(std::chrono::milliseconds pause, CmEndpoint& endpoint)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  int ConnectToHost(CmEndpoint& endpoint)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

  const PeerUsers& users_;
  Network& network_;
  EndpointCallbacks& callbacks_;
  ConnectionHandshake& handshake_;
  bool waits_for_listeners_ ABSL_GUARDED_BY(kEndpoints) = false;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CM_CONNECTION_REQUESTER_H_
