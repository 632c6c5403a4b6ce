// How identifiers of the port space UDP find each other's queue pairs.

#ifndef VERBENA_TRANSPORT_SOFT_SERVICES_DATAGRAM_SERVICE_H_
#define VERBENA_TRANSPORT_SOFT_SERVICES_DATAGRAM_SERVICE_H_

#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <random>

#include "absl/base/thread_annotations.h"
#include "transport/soft/cm/cm_endpoint.h"
#include "transport/soft/cm/cm_events.h"
#include "transport/soft/cm/cm_locks.h"
#include "transport/soft/cm/connection_manager.h"
#include "transport/soft/cm/endpoint_addresses.h"
#include "transport/soft/cm/endpoint_callbacks.h"
#include "transport/soft/cm/port_space.h"
#include "transport/soft/datagram/cm_datagram.h"
#include "transport/soft/datagram/datagram_network.h"
#include "transport/soft/services/group_membership.h"
#include "transport/soft/services/service_endpoint.h"

namespace verbena::soft {

// The port space UDP. Asks the service at an address for the number of its
// queue pair, and answers such questions for listeners: the messages of
// cm_datagram.h. Nothing is connected by that. A question that gets no answer
// is asked again, so what is lost on the way does no harm.
//
// A peer's messages are validated before they are used. An answer must bear the
// number of the question.
//
// PortSpace says which threads may use it. The arguments of the constructor
// outlive it.
class DatagramService final : public PortSpace {
 public:
  DatagramService(const GidTable& gids, DatagramNetwork& network,
                  ConnectionManager& manager)
      : network_(network),
        callbacks_(manager.callbacks()),
        addresses_(manager.addresses()),
        events_(manager.events()),
        groups_(gids, addresses_, events_) {}

  // The port space of `endpoint`. REQUIRES: that is UDP.
  static DatagramService& Of(CmEndpoint& endpoint) {
    return static_cast<DatagramService&>(*endpoint.port_space);
  }

  GroupMembership& groups() { return groups_; }

  // PortSpace:
  std::shared_ptr<CmEndpoint> MakeEndpoint() override;
  int OpenSocket(base::SocketAddress& address, BindPurpose /*purpose*/,
                 base::UniqueFd& socket) override {
    return OpenCmDatagramSocket(address, socket);
  }
  // Takes the queue pair to RTS.
  int PrepareQp(ibv_qp* qp) override;
  void LetGoOfQp(CmEndpoint& endpoint) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints) {
    groups_.DetachQueuePair(ServiceEndpoint::From(endpoint));
  }
  // Takes questions.
  int Listen(CmEndpoint& listener) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  // Asks the peer of `endpoint` for its queue pair.
  int Connect(CmEndpoint& endpoint, const rdma_conn_param* parameters,
              ClosingSockets& closing) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  int Accept(CmEndpoint& endpoint, const rdma_conn_param* parameters) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  int Reject(CmEndpoint& endpoint, const void* private_data,
             uint8_t length) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  // Datagrams are not connected.
  int Disconnect(CmEndpoint& /*endpoint*/) override { return EINVAL; }
  int Establish(CmEndpoint& /*endpoint*/) override { return EINVAL; }
  // The Q_Key is the one that all identifiers have.
  int InitQpAttr(CmEndpoint& endpoint, ibv_qp_attr& attributes,
                 int& mask) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  void End(CmEndpoint& endpoint, ClosingSockets& closing) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

 private:
  int Watch(CmEndpoint& endpoint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  int Send(const CmEndpoint& endpoint, const CmDatagram& datagram);
  void Ask(ServiceEndpoint& endpoint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  void AskAgain(ServiceEndpoint& endpoint)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  void OnReadable(ServiceEndpoint& endpoint)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  void OnQuestion(ServiceEndpoint& listener, const CmDatagram& question)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  // Whether the listener has room to remember one more question.
  bool HasRoom(ServiceEndpoint& listener)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  void OnAnswer(ServiceEndpoint& endpoint, const CmDatagram& answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);
  void Answer(ServiceEndpoint& endpoint, CmDatagram reply, CmState state)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kEndpoints);

  DatagramNetwork& network_;
  EndpointCallbacks& callbacks_;
  EndpointAddresses& addresses_;
  CmEvents& events_;
  GroupMembership groups_;
  // The number of the next question. Numbers begin at random, so that those of
  // a process are not taken for those of one that had its address before.
  uint64_t next_question_ ABSL_GUARDED_BY(kEndpoints) = std::random_device()();
};

}  // namespace verbena::soft

#endif  // VERBENA_TRANSPORT_SOFT_SERVICES_DATAGRAM_SERVICE_H_
