// The connection manager of the software device: what librdmacm and the kernel
// do for hardware.

#ifndef VERBENA_TRANSPORT_SOFT_CM_CONNECTION_MANAGER_H_
#define VERBENA_TRANSPORT_SOFT_CM_CONNECTION_MANAGER_H_

#include <rdma/rdma_cma.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "transport/base/mutex.h"
#include "transport/base/socket_address.h"
#include "transport/soft/cm/cm_channel.h"
#include "transport/soft/cm/cm_endpoint.h"
#include "transport/soft/cm/cm_events.h"
#include "transport/soft/cm/cm_locks.h"
#include "transport/soft/cm/connection_handshake.h"
#include "transport/soft/cm/connection_listener.h"
#include "transport/soft/cm/connection_requester.h"
#include "transport/soft/cm/datagram_service.h"
#include "transport/soft/cm/endpoint_addresses.h"
#include "transport/soft/cm/endpoint_callbacks.h"
#include "transport/soft/cm/group_membership.h"
#include "transport/soft/device/soft_device.h"
#include "transport/verbs/verbs_ops.h"

namespace verbena::soft {

// The identifiers of this process. It makes and destroys them, and gives each
// call to the part that it concerns, with kEndpoints held.
//
// Thread-safe. The public methods have the behaviour of the librdmacm functions
// of their names and return 0 or an errno. What peers send is handled on the
// engine's thread, and validated before it is used.
class ConnectionManager {
 public:
  // The manager of this process, for SoftDevice::Get(). Like the device it is
  // never destroyed.
  static ConnectionManager& Get();

  explicit ConnectionManager(SoftDevice& device);
  ConnectionManager(const ConnectionManager&) = delete;
  ConnectionManager& operator=(const ConnectionManager&) = delete;

  // Where the user reads and acknowledges events.
  CmEvents& events() { return events_; }

  // `port_space` is RDMA_PS_TCP or RDMA_PS_UDP.
  CmEndpoint* CreateId(CmChannel& channel, void* context,
                       rdma_port_space port_space);
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

  // See soft_provider.h.
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

  // With `send_only` the queue pair is not attached.
  int JoinMulticast(CmEndpoint& endpoint, const base::SocketAddress& group,
                    bool send_only, void* context);
  int LeaveMulticast(CmEndpoint& endpoint, const base::SocketAddress& group);

 private:
  void Destroy(CmEndpoint& endpoint, ClosingSockets& closing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  // Parts `endpoint` from its queue pair, which is about to be destroyed.
  // REQUIRES: it has one.
  void LetGoOfQp(CmEndpoint& endpoint)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

  Engine& engine_;  // The device's engine.
  const transport::VerbsOps verbs_;

  EndpointsMutex mutex_;
  CmEvents events_;
  EndpointCallbacks callbacks_;
  EndpointAddresses addresses_;
  ConnectionHandshake handshake_;
  ConnectionRequester requester_;
  ConnectionListener listener_;
  DatagramService datagrams_;
  GroupMembership groups_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CM_CONNECTION_MANAGER_H_
