// The port space TCP, whose identifiers connect queue pairs.

#ifndef VERBENA_TRANSPORT_SOFT_CM_CONNECTION_SPACE_H_
#define VERBENA_TRANSPORT_SOFT_CM_CONNECTION_SPACE_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "transport/soft/cm/cm_events.h"
#include "transport/soft/cm/cm_locks.h"
#include "transport/soft/cm/cm_queue_pair.h"
#include "transport/soft/cm/connection_handshake.h"
#include "transport/soft/cm/connection_listener.h"
#include "transport/soft/cm/connection_requester.h"
#include "transport/soft/cm/endpoint_addresses.h"
#include "transport/soft/cm/port_space.h"
#include "transport/soft/device/soft_device.h"

namespace verbena::soft {

// Gives each call to the part of a connection that it concerns. The arguments
// of the constructor outlive it.
class ConnectionSpace final : public PortSpace {
 public:
  ConnectionSpace(SoftDevice& device, EndpointCallbacks& callbacks,
                  EndpointAddresses& addresses, CmEvents& events)
      : handshake_(callbacks, addresses, events),
        requester_(device.peer_users(), device.network(), callbacks,
                   handshake_),
        listener_(device.peer_users(), device.network(), callbacks, addresses,
                  events, handshake_) {}

  // See full_provider.h.
  void WaitForListeners() ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) {
    requester_.WaitForListeners();
  }

  // PortSpace:
  std::shared_ptr<CmEndpoint> MakeEndpoint() override;
  int OpenSocket(base::SocketAddress& address, BindPurpose purpose,
                 base::UniqueFd& socket) override {
    return OpenBoundSocket(address, purpose, socket);
  }
  int PrepareQp(ibv_qp* qp) override { return MoveToInit(qp); }
  void LetGoOfQp(CmEndpoint& endpoint) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  int Listen(CmEndpoint& endpoint) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) {
    return listener_.Start(endpoint);
  }
  int Connect(CmEndpoint& endpoint, const rdma_conn_param* parameters,
              ClosingSockets& closing) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) {
    return requester_.Connect(endpoint, parameters, closing);
  }
  int Accept(CmEndpoint& endpoint, const rdma_conn_param* parameters) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) {
    return handshake_.Accept(endpoint, parameters);
  }
  int Reject(CmEndpoint& endpoint, const void* private_data,
             uint8_t length) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) {
    return handshake_.Reject(endpoint, private_data, length);
  }
  int Disconnect(CmEndpoint& endpoint) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) {
    return handshake_.Disconnect(endpoint);
  }
  int Establish(CmEndpoint& endpoint) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) {
    return handshake_.Establish(endpoint);
  }
  int InitQpAttr(CmEndpoint& endpoint, ibv_qp_attr& attributes,
                 int& mask) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) {
    return handshake_.InitQueuePairAttributes(endpoint, attributes, mask);
  }
  void End(CmEndpoint& endpoint, ClosingSockets& closing) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

 private:
  ConnectionHandshake handshake_;
  ConnectionRequester requester_;
  ConnectionListener listener_;
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_CM_CONNECTION_SPACE_H_
