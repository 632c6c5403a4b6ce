// The connection manager of the software device: what librdmacm and the kernel
// do for hardware.

#ifndef VERBENA_TRANSPORT_SOFT_CM_CONNECTION_MANAGER_H_
#define VERBENA_TRANSPORT_SOFT_CM_CONNECTION_MANAGER_H_

#include <rdma/rdma_cma.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/base/socket_address.h"
#include "transport/soft/cm/cm_channel.h"
#include "transport/soft/cm/cm_endpoint.h"
#include "transport/soft/cm/cm_events.h"
#include "transport/soft/cm/cm_locks.h"
#include "transport/soft/cm/connection_space.h"
#include "transport/soft/cm/endpoint_addresses.h"
#include "transport/soft/cm/endpoint_callbacks.h"
#include "transport/soft/cm/port_space.h"
#include "transport/soft/device/soft_device.h"
#include "transport/verbs/verbs_ops.h"

namespace verbena::soft {

// Identifiers of this process. It makes and destroys them, and gives each call
// to their port space, with kEndpoints held.
//
// Thread-safe. The public methods have the behaviour of the librdmacm functions
// of their names and return 0 or an errno. What peers send is handled on the
// engine's thread, and validated before it is used.
class ConnectionManager {
 public:
  // The manager of RPC, for SoftDevice::Get(): it has the verbs of
  // SoftVerbsOps() and the port space TCP. Like the device it is never
  // destroyed.
  static ConnectionManager& Get();

  // The users of its identifiers have the verbs `verbs`.
  ConnectionManager(SoftDevice& device, const transport::VerbsOps& verbs);
  ConnectionManager(const ConnectionManager&) = delete;
  ConnectionManager& operator=(const ConnectionManager&) = delete;

  // Where the user reads and acknowledges events.
  CmEvents& events() { return events_; }

  // For other port spaces: the parts that they share with TCP, and the mutex
  // that kEndpoints names.
  EndpointAddresses& addresses() { return addresses_; }
  EndpointCallbacks& callbacks() { return callbacks_; }
  EndpointsMutex& mutex() { return mutex_; }
  // Adds the port space UDP. Called before the first identifier is made.
  void AddServices(std::unique_ptr<PortSpace> services) {
    services_ = std::move(services);
  }

  // EPROTONOSUPPORT, the kernel's answer, for a port space that it does not
  // have.
  int CreateId(CmChannel& channel, void* context, rdma_port_space port_space,
               CmEndpoint*& endpoint);
  // Blocks until every event of `endpoint` that was read is acknowledged.
  void DestroyId(CmEndpoint& endpoint);
  int SetOption(CmEndpoint& endpoint, int level, int option, const void* value,
                size_t length);

  int BindAddr(CmEndpoint& endpoint, const base::SocketAddress& address);
  int ResolveAddr(CmEndpoint& endpoint, const base::SocketAddress& source,
                  const base::SocketAddress& destination);
  int ResolveRoute(CmEndpoint& endpoint);

  int CreateQp(CmEndpoint& endpoint, ibv_pd* pd, ibv_qp_init_attr* attributes);
  void DestroyQp(CmEndpoint& endpoint);

  // See full_provider.h.
  void WaitForListeners();

  int Listen(CmEndpoint& endpoint, int backlog);
  int Connect(CmEndpoint& endpoint, const rdma_conn_param* parameters);
  int Accept(CmEndpoint& endpoint, const rdma_conn_param* parameters);
  int Reject(CmEndpoint& endpoint, const void* private_data, uint8_t length);
  int Disconnect(CmEndpoint& endpoint);
  int Establish(CmEndpoint& endpoint);
  int InitQpAttr(CmEndpoint& endpoint, ibv_qp_attr& attributes, int& mask);

  // The user of the peer's process, if that is on this host.
  std::optional<uid_t> PeerUser(CmEndpoint& endpoint);

 private:
  void Destroy(CmEndpoint& endpoint, ClosingSockets& closing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  // `endpoint` has no queue pair any more. REQUIRES: it has one.
  void LetGoOfQp(CmEndpoint& endpoint)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

  Engine& engine_;  // The device's engine.
  const transport::VerbsOps verbs_;

  EndpointsMutex mutex_;
  CmEvents events_;
  EndpointCallbacks callbacks_;
  EndpointAddresses addresses_;
  ConnectionSpace connections_;
  std::unique_ptr<PortSpace> services_;  // Null if there are only connections.
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CM_CONNECTION_MANAGER_H_
