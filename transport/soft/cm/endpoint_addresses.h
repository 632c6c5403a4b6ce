// The addresses of identifiers, and the device that they lead to.

#ifndef VERBENA_TRANSPORT_SOFT_CM_ENDPOINT_ADDRESSES_H_
#define VERBENA_TRANSPORT_SOFT_CM_ENDPOINT_ADDRESSES_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "transport/base/socket_address.h"
#include "transport/soft/address/cm_address.h"
#include "transport/soft/cm/cm_endpoint.h"
#include "transport/soft/cm/cm_events.h"
#include "transport/soft/cm/cm_locks.h"
#include "transport/soft/cm/endpoint_callbacks.h"
#include "transport/soft/device/context.h"
#include "transport/soft/device/soft_device.h"
#include "transport/verbs/verbs_ops.h"

namespace verbena::soft {

// Binds identifiers to addresses of this host and resolves those of peers, for
// both port spaces.
//
// Thread-safe: its methods are called with kEndpoints held. What it is made
// with outlives it.
class EndpointAddresses {
 public:
  // Opens the device by `verbs`.
  EndpointAddresses(SoftDevice& device, const transport::VerbsOps& verbs,
                    CmEvents& events)
      : device_(device), verbs_(verbs), events_(events) {}
  EndpointAddresses(const EndpointAddresses&) = delete;
  EndpointAddresses& operator=(const EndpointAddresses&) = delete;

  // Takes `address` for `endpoint`, which has none yet. Returns 0 or an errno.
  int Bind(CmEndpoint& endpoint, base::SocketAddress address,
           BindPurpose purpose) ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

  // rdma_resolve_addr and rdma_resolve_route: return 0, and then raise an
  // event, or return an errno.
  int ResolveAddr(CmEndpoint& endpoint, base::SocketAddress source,
                  base::SocketAddress destination, ClosingSockets& closing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  int ResolveRoute(CmEndpoint& endpoint)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

  // A new endpoint between `local` and `peer`, born of a request to `listener`.
  // Null when the device cannot be opened.
  std::shared_ptr<CmEndpoint> MakeRequested(const CmEndpoint& listener,
                                            const base::SocketAddress& local,
                                            const base::SocketAddress& peer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

  // The path from the local address of `endpoint` to `gid`. If the host has
  // that address no more, the path starts at index 0 of the table of GIDs.
  ibv_ah_attr PathTo(const CmEndpoint& endpoint, const ibv_gid& gid,
                     uint8_t hop_limit) const;

 private:
  // The local address from which `destination` is reached; empty when there is
  // no way.
  base::SocketAddress RouteTo(const CmEndpoint& endpoint,
                              const base::SocketAddress& destination) const;
  int OpenSocket(CmEndpoint& endpoint, base::SocketAddress& address,
                 BindPurpose purpose) ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  // Binds `endpoint`, which has the wildcard, to `source` and its own port.
  int LeaveWildcard(CmEndpoint& endpoint, base::SocketAddress source,
                    ClosingSockets& closing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  ibv_context* Context() ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

  SoftDevice& device_;
  const transport::VerbsOps& verbs_;
  CmEvents& events_;
  // The context that all identifiers have in rdma_cm_id::verbs; null until the
  // first needs it. By its beginning, or tools that look for leaks take it for
  // one.
  soft::Context* context_ ABSL_GUARDED_BY(kEndpoints) = nullptr;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CM_ENDPOINT_ADDRESSES_H_
